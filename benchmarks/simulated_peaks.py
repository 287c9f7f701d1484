"""MindSpore's own peak of memory for 30 layouts of Llamas of three widths and others, as JSON: what the planner is compared against.

    python benchmarks/simulated_peaks.py --output tests/fixtures/simulated_peaks.json     # about 15 s of processor time each
    python benchmarks/simulated_peaks.py h4096-dp2mp2pp2                                  # some of them, to the terminal

One rank of each: all dimensions, the layout, recomputation, dtypes, what the rank holds, its peak with and without fragments. Layouts
that the output file has already are not simulated again.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path
from typing import Any

from simulate_layouts import simulated

from mindrecipe.derive.machine import Machine
from mindrecipe.run import Run

BASE = ["+model=llama2_7b", "parallel=semi_auto", "amp=O2", "device=ascend_910b", "launch.devices_per_node=8", "model.num_layers=4"]
WIDTHS = {
    "h1024": ["model.hidden_size=1024", "model.num_heads=16", "model.seq_length=2048"],
    "h2048": ["model.hidden_size=2048", "model.num_heads=16", "model.seq_length=4096"],
    "h4096": ["model.hidden_size=4096", "model.num_heads=32", "model.seq_length=4096"],
}
UNSHARDED, SEQUENCE = "parallel.optimizer_parallel=false", "parallel.use_seq_parallel=true"
#: name -> model_parallel, pipeline_stage, micro_batch_num, rank, more
LAYOUTS: dict[str, tuple[int, int, int, int, list[str]]] = {
    "dp1mp4pp2": (4, 2, 4, 0, [UNSHARDED]),
    "dp1mp4pp2_last": (4, 2, 4, 4, [UNSHARDED]),
    "dp2mp2pp2": (2, 2, 4, 0, []),
    "dp2mp2pp2_full": (2, 2, 4, 0, ["recompute=full"]),
    "dp2mp2pp2_sp": (2, 2, 4, 0, [SEQUENCE]),
    "dp2mp4pp1": (4, 1, 1, 0, []),
    "dp8mp1pp1_full": (1, 1, 1, 0, ["recompute=full"]),
    "dp4mp1pp2_sel_noop": (1, 2, 4, 0, ["recompute=selective", UNSHARDED]),
    "dp2mp4pp1_attn_sp": (4, 1, 1, 0, ["recompute=attention", SEQUENCE]),
    "dp1mp2pp4_full_sp": (2, 4, 8, 0, ["recompute=full", SEQUENCE, UNSHARDED]),
}
QWEN = [
    "+model=qwen3_8b", *BASE[1:], "model.hidden_size=2048", "model.num_heads=16", "model.num_kv_heads=8", "model.intermediate_size=6144",
    "model.vocab_size=32000", "model.bos_token_id=1", "model.eos_token_id=2", "model.pad_token_id=0",
]  # fmt: skip
#: Qwen3-MoE of eight small experts, as an imported recipe names it
MOE = [
    "+model=custom", "run.name=qwen3_moe", "model.architecture=mcore", *BASE[1:], "model.seq_length=2048", "model.hidden_size=1024",
    "model.num_heads=16", "model.num_kv_heads=4", "model.head_dim=64", "model.intermediate_size=3072", "model.vocab_size=32000",
    "model.keys={seq_length:seq_length,num_layers:num_hidden_layers,hidden_size:hidden_size,num_heads:num_attention_heads,"
    "num_kv_heads:num_key_value_heads,head_dim:head_dim,intermediate_size:intermediate_size,vocab_size:vocab_size,"
    "tie_word_embeddings:tie_word_embeddings,use_flash_attention:use_flash_attention,compute_dtype:compute_dtype,"
    "param_dtype:params_dtype,layernorm_dtype:layernorm_compute_dtype,softmax_dtype:softmax_compute_dtype,rotary_dtype:rotary_dtype}",
    "model.extra={model_type:qwen3_moe,architectures:[Qwen3MoeForCausalLM],hidden_act:swiglu,attention_bias:false,add_bias_linear:false,"
    "attention_dropout:0.0,hidden_dropout:0.0,position_embedding_type:rope,qk_layernorm:true,qkv_concat:true,input_sliced_sig:true,"
    "use_contiguous_weight_layout_attention:false,fp32_residual_connection:true,untie_embeddings_and_output_weights:true,num_experts:8,"
    "num_experts_per_tok:2,moe_intermediate_size:768,routed_scaling_factor:1.0,moe_grouped_gemm:true,norm_topk_prob:true,"
    "router_aux_loss_coef:0.001,decoder_sparse_step:1,rms_norm_eps:1.0e-6,rope_theta:1000000.0,max_position_embeddings:4096,"
    "initializer_range:0.02}",
]  # fmt: skip
#: the same with a shared expert
SHARED = [word.replace("num_experts:8,", "num_experts:8,shared_expert_num:1,moe_shared_expert_intermediate_size:768,") for word in MOE]
#: DeepSeek-V3's kinds of parts, small: latent attention, a dense layer before those with routed and shared experts
DEEPSEEK = [
    "+model=custom", "run.name=deepseek", "model.architecture=mcore", *BASE[1:], "model.seq_length=2048", "model.hidden_size=1024",
    "model.num_heads=16", "model.num_kv_heads=16", "model.intermediate_size=3072", "model.vocab_size=32000",
    "model.keys={seq_length:seq_length,num_layers:num_hidden_layers,hidden_size:hidden_size,num_heads:num_attention_heads,"
    "num_kv_heads:num_key_value_heads,intermediate_size:intermediate_size,vocab_size:vocab_size,"
    "tie_word_embeddings:tie_word_embeddings,use_flash_attention:use_flash_attention,compute_dtype:compute_dtype,"
    "param_dtype:params_dtype,layernorm_dtype:layernorm_compute_dtype,softmax_dtype:softmax_compute_dtype,rotary_dtype:rotary_dtype}",
    "model.extra={model_type:deepseek_v3,architectures:[DeepseekV3ForCausalLM],hidden_act:silu,add_bias_linear:false,"
    "multi_latent_attention:true,mla_qkv_concat:false,kv_lora_rank:256,q_lora_rank:512,qk_rope_head_dim:32,qk_nope_head_dim:64,"
    "v_head_dim:96,qk_layernorm:true,attention_dropout:0.0,hidden_dropout:0.0,gated_linear_unit:true,moe_intermediate_size:768,"
    "routed_scaling_factor:1.5,first_k_dense_replace:1,n_routed_experts:8,num_experts_per_tok:2,n_shared_experts:1,"
    "moe_grouped_gemm:true,moe_router_load_balancing_type:seq_aux_loss,moe_aux_loss_coeff:0.001,norm_topk_prob:true,"
    "moe_router_enable_expert_bias:true,moe_router_bias_update_rate:0.001,n_group:1,topk_group:1,num_nextn_predict_layers:0,"
    "max_position_embeddings:4096,rope_theta:10000}",
]  # fmt: skip
CONCATENATED = [word.replace("mla_qkv_concat:false", "mla_qkv_concat:true,fp32_residual_connection:true") for word in DEEPSEEK]
PP2 = ["parallel.pipeline_stage=2", "parallel.micro_batch_num=4"]
TP2PP2 = ["parallel.model_parallel=2", *PP2]
CHUNKS = ["model.num_layers=8", "parallel.pipeline_interleave=2", "recompute=per_stage", "recompute.layers=[[2,1],[0,1]]"]
HYBRID = ["parallel.context_parallel_algo=hybrid_cp", "parallel.ulysses_degree_in_cp=2"]
H2048 = [*BASE, *WIDTHS["h2048"]]
SHORT = [*BASE, *WIDTHS["h4096"], "model.seq_length=512", "model.num_layers=8", "parallel.model_parallel=2", UNSHARDED]
#: what the three widths do not have: name -> rank, words
OTHERS: dict[str, tuple[int, list[str]]] = {
    "h2048-cp2mp2pp2": (0, [*H2048, *TP2PP2, "parallel.context_parallel=2"]),
    "h2048-dp2mp2pp2_interleaved": (0, [*H2048, *TP2PP2, "model.num_layers=8", "parallel.pipeline_interleave=2"]),
    "h2048-dp2mp2pp2_interleaved_last": (4, [*H2048, *TP2PP2, "model.num_layers=8", "parallel.pipeline_interleave=2"]),
    "h2048-cp2mp2pp2_ulysses": (0, [*H2048, *TP2PP2, "parallel.context_parallel=2", "parallel.context_parallel_algo=ulysses_cp"]),
    "h2048-cp4pp2_hybrid": (0, [*H2048, *PP2, "parallel.context_parallel=4", *HYBRID]),
    "h2048-dp2mp2pp2_chunks": (0, [*H2048, *TP2PP2, *CHUNKS]),
    "h2048-dp2mp2pp2_chunks_last": (4, [*H2048, *TP2PP2, *CHUNKS]),
    "h2048-dp1024": (0, [*H2048, "launch.nodes=128", "model.num_layers=2"]),
    "h2048-dp1024_groups": (0, [*H2048, "launch.nodes=128", "model.num_layers=2", "parallel.optimizer_weight_shard_size=512"]),
    "h2048-dp2mp2pp2_last": (4, [*H2048, *TP2PP2]),
    "h2048-dp8_unsharded": (0, [*H2048, UNSHARDED]),
    "h2048-dp4mp2_accumulated": (0, [*H2048, "parallel.model_parallel=2", "parallel.gradient_accumulation_steps=4"]),
    "h4096-mp2pp4_middle": (2, [*SHORT, "parallel.pipeline_stage=4", "parallel.micro_batch_num=8"]),
    "h4096-mp2pp4_end": (6, [*SHORT, "parallel.pipeline_stage=4", "parallel.micro_batch_num=8"]),
    "qwen3-dp2mp2pp2": (0, [*QWEN, *TP2PP2, SEQUENCE]),
    "qwen3-dp2mp2pp2_last": (4, [*QWEN, *TP2PP2, SEQUENCE]),
    "qwen3-dp2mp2pp2_full": (0, [*QWEN, *TP2PP2, SEQUENCE, "recompute=full"]),
    "qwen3-dp2mp2pp2_unsharded": (0, [*QWEN, *TP2PP2, SEQUENCE, UNSHARDED]),
    "qwen3-dp2mp4": (0, [*QWEN, "parallel.model_parallel=4", SEQUENCE]),
    "qwen3-cp2mp2pp2": (0, [*QWEN, *TP2PP2, "parallel.context_parallel=2"]),
    "qwen3_moe-ep2dp2mp2pp2": (0, [*MOE, *TP2PP2, SEQUENCE, "parallel.expert_parallel=2"]),
    "qwen3_moe-ep2dp2mp2pp2_last": (4, [*MOE, *TP2PP2, SEQUENCE, "parallel.expert_parallel=2"]),
    "qwen3_moe_shared-ep2dp2mp2pp2": (0, [*SHARED, *TP2PP2, SEQUENCE, "parallel.expert_parallel=2"]),
    "qwen3_moe_shared-ep2dp2mp2pp2_last": (4, [*SHARED, *TP2PP2, SEQUENCE, "parallel.expert_parallel=2"]),
    "deepseek-ep2dp2mp2pp2": (0, [*DEEPSEEK, *TP2PP2, SEQUENCE, "parallel.expert_parallel=2"]),
    "deepseek-ep2dp2mp2pp2_last": (4, [*DEEPSEEK, *TP2PP2, SEQUENCE, "parallel.expert_parallel=2"]),
    "deepseek_concatenated-ep4dp4mp2": (0, [*CONCATENATED, "parallel.model_parallel=2", SEQUENCE, "parallel.expert_parallel=4"]),
    "qwen3_moe-ep4dp4mp2": (0, [*MOE, "parallel.model_parallel=2", SEQUENCE, "parallel.expert_parallel=4"]),
}
HERE = Machine(npu=None, npu_count=0, memory_bytes=1 << 34, cores=2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path)
    parser.add_argument("only", nargs="*", help="names, or parts of them")
    arguments = parser.parse_args()
    output: Path | None = arguments.output
    rows = json.loads(output.read_text()) if output is not None and output.exists() else []
    for name, (rank, words) in every().items():
        if any(row["name"] == name for row in rows) or (arguments.only and not any(part in name for part in arguments.only)):
            continue
        rows.append(row_of(name, words, rank))
        if output is not None:
            output.write_text(json.dumps(rows, indent=1) + "\n")
        else:
            print(json.dumps(rows[-1]), flush=True)


def every() -> dict[str, tuple[int, list[str]]]:
    """All layouts: name -> rank, words."""
    found = {}
    for width, dimensions in WIDTHS.items():
        for layout, (model_parallel, stages, micro_batches, rank, more) in LAYOUTS.items():
            mesh = [f"parallel.model_parallel={model_parallel}", f"parallel.pipeline_stage={stages}"]
            found[f"{width}-{layout}"] = rank, [*BASE, *dimensions, *mesh, f"parallel.micro_batch_num={micro_batches}", *more]
    return found | OTHERS


def row_of(name: str, words: list[str], rank: int) -> dict[str, Any]:
    """One rank of one layout."""
    derived = Run.from_overrides([*words, "launch=simulate"], machine=HERE).derived
    (report,) = simulated(words, str(rank))["ranks"]
    held = report["holdings"]["held"]
    config = derived.config
    return {
        "name": name,
        "words": words,
        "rank": rank,
        "stage": report["stage"],
        "device_num": derived.device_num,
        "model": dataclasses.asdict(config.model),
        "parallel": dataclasses.asdict(config.parallel),
        "recompute": dataclasses.asdict(config.recompute),
        "amp": dataclasses.asdict(config.amp),
        "optimizer": config.optimizer.type,
        "batch_size": config.dataset.batch_size,
        "micro_batch_num": config.parallel.micro_batch_num,
        "held": {
            kind: {"parameters": sum(map(elements, each)), "bytes": sum(4 * elements(item) for item in each)}
            for kind in ("weight", "gradient", "state")
            for each in [[item for item in held if item["kind"] == kind]]
        },
        "peak_without_fragments_bytes": report["holdings"]["peak_bytes"],
        "peak_with_fragments_mib": report["peak_with_fragments"] >> 20,
    }


def elements(item: dict[str, Any]) -> int:
    """Elements of a slice."""
    size = 1
    for each in item["shape"]:
        size *= each
    return size


if __name__ == "__main__":
    main()
