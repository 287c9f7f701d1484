"""How each training framework holds activations and what it takes beside tensors: the few constants of the memory model.

Every constant has a meaning that could be measured on its own; where it was fitted, the source of the fit is said. A job names its
framework: recipes are MINDSPORE, the others price published runs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Framework:
    """What a framework keeps beside the tensors every implementation has.

    ``fused_gate``: the gate's activation is computed with the product, so it is not kept apart. ``softmax_statistics``: bytes flash
    attention keeps for each head and token. ``norm_kept``: bytes a norm keeps for each element beside its input and result.
    ``residual``, ``gate``, ``expert_gate``: bytes of an element of the residual stream, and of what the gate of a feed-forward layer, or of
    routed experts, reads and gives, where they are not those of an activation.
    ``head_norms``: bytes kept for each element of query and key by norms of the heads. ``attention_outputs``: times the
    result of attention is kept. ``expert_outputs``: times the widths of the experts' first product are kept, in bytes of an activation.
    ``gathers_norms``: under sequence parallelism what a norm gives is kept gathered, not split. ``logit_kept``, ``logit_peak``:
    bytes of one logit kept until its backward pass, and held at the worst moment of the loss (the kept ones included).
    ``transient_gradient``: bytes a parameter's gradient takes before it is added to its buffer. ``layer_workspace``: gradients of
    activations that live at once in the backward pass, as a share of one layer's activations. ``reserve_gib``: driver, communication
    library and its buckets, which no tensor of the model explains. ``fragmentation``: share of the dynamic memory that the allocator
    holds and can't use. ``graph_update``: the update's operators are nodes of the graph (update.py). ``mask_kept``: bytes a score of
    the attention mask keeps for each micro batch in flight, ``mask_constant``: those of the causal mask the program holds, once a chunk.
    ``gathers_table``: bytes of an element of the embedding that is gathered for the forward passes where its states are sharded.
    """

    name: str
    fused_gate: bool = True
    softmax_statistics: float = 4
    residual: float = 0
    gate: float = 0
    expert_gate: float = 0
    head_norms: float = 0
    attention_outputs: int = 1
    expert_outputs: float = 1
    norm_kept: float = 0
    gathers_norms: bool = False
    logit_kept: float = 2
    logit_peak: float = 6
    transient_gradient: float = 0
    layer_workspace: float = 0
    reserve_gib: float = 0
    fragmentation: float = 0
    graph_update: bool = False
    mask_kept: float = 0
    mask_constant: float = 0
    gathers_table: float = 0


#: gradients of the widest activation of a layer beside its inputs: 0.17 of a layer (Galvatron's profiles of Llama layers)
_LAYER_WORKSPACE = 0.17

#: mindformers' legacy models, read from the memory tracker of MindSpore's Ascend dry runs (docs/plan.md). 16 bytes a logit: four fp32
#: tensors of CrossEntropyLoss at its Neg (one-hot labels, log softmax, their product, the result). FlashAttentionScore keeps maximum and
#: sum as [batch, heads, seq, 8] in fp32. A backward pass of a layer has a gradient of the widest tensor, some of the stream: 0.45 of a
#: layer's activations (the only fitted figure). LowerTriangularMaskWithDynamic: a half constant, and a mask of one byte a micro batch.
MINDSPORE = Framework(
    name="mindspore",
    fused_gate=False,
    softmax_statistics=64,
    gathers_norms=True,
    logit_peak=16,
    layer_workspace=0.45,
    graph_update=True,
    mask_kept=1,
    mask_constant=2,
)
#: mindformers' mcore models, read from the same: fp32_residual_connection, SwiGlu in fp32, q_layernorm and k_layernorm in fp32, the result
#: of FlashAttention kept once more transposed; FFNGroupedGEMM keeps its first product (two widths in half) beside the gate's.
MINDSPORE_MCORE = replace(
    MINDSPORE,
    name="mindspore mcore",
    residual=4,
    gate=4,
    head_norms=4,
    attention_outputs=2,
    expert_gate=4,
    expert_outputs=2,
    gathers_table=4,
)
#: Megatron-LM and MindSpeed since 2023: no published memory to fit it on; with these constants the jobs that ran fit their devices
MEGATRON = Framework(name="megatron", logit_peak=8, reserve_gib=3, fragmentation=0.05, layer_workspace=_LAYER_WORKSPACE)
#: llm-foundry: norms in half; no published memory either: the largest micro batches that ran just fit
LLM_FOUNDRY = Framework(name="llm-foundry", logit_peak=9, layer_workspace=_LAYER_WORKSPACE)
#: Megatron-DeepSpeed on A100 as `nvidia-smi` sees it (BLOOM's tr11 chronicles): CUDA, NCCL, ZeRO-1's buckets, the caching allocator
MEGATRON_DEEPSPEED = Framework(name="megatron-deepspeed", logit_peak=10, reserve_gib=8, fragmentation=0.3, layer_workspace=_LAYER_WORKSPACE)
#: torch with fused kernels, memory as torch.cuda.max_memory_allocated sees it; Galvatron: FSDP's unsharded half gradients are transient
GALVATRON = Framework(name="galvatron", logit_peak=4, transient_gradient=2, layer_workspace=_LAYER_WORKSPACE)
#: torchtune, eager: norms in fp32 and the gate's activation are kept, logits in fp32 with their gradient
TORCH_EAGER = Framework(name="torch", fused_gate=False, norm_kept=4, logit_peak=12.5, layer_workspace=_LAYER_WORKSPACE)
#: torchtune under torch.compile; chunked: the loss is computed over chunks of the logits
TORCH_COMPILED = Framework(name="torch compiled", logit_peak=12.5, layer_workspace=_LAYER_WORKSPACE)
TORCH_CHUNKED = Framework(name="torch compiled, chunked loss", logit_peak=4.5, layer_workspace=_LAYER_WORKSPACE)
