"""Native configurations for tests, as users have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

#: in the manner of mindformers 1.0: a Llama 2 7B on 8 devices
LLAMA = """\
seed: 0
output_dir: './output'
load_checkpoint: ''
run_mode: 'train'
trainer:
  type: CausalLanguageModelingTrainer
  model_name: 'llama2_7b'
runner_config:
  epochs: 2
  batch_size: 1
  sink_mode: True
  sink_size: 2
  gradient_accumulation_steps: 8
optimizer:
  type: FP32StateAdamWeightDecay
  beta1: 0.9
  beta2: 0.95
  eps: 1.e-8
  learning_rate: 5.e-5
lr_schedule:
  type: CosineWithWarmUpLR
  learning_rate: 1.e-5
  lr_end: 0
  warmup_ratio: 0.03
  total_steps: -1
train_dataset: &train_dataset
  data_loader:
    type: MindDataset
    dataset_dir: ""
    shuffle: True
  input_columns: ["input_ids"]
  num_parallel_workers: 8
  python_multiprocessing: False
  drop_remainder: True
  batch_size: 6
  repeat: 1
  numa_enable: False
  prefetch_size: 1
train_dataset_task:
  type: CausalLanguageModelDataset
  dataset_config: *train_dataset
use_parallel: True
parallel:
  parallel_mode: 1
  gradients_mean: False
  enable_alltoall: False
  full_batch: True
  search_mode: "sharding_propagation"
  enable_parallel_optimizer: True
  parallel_optimizer_config:
    gradient_accumulation_shard: False
    parallel_optimizer_threshold: 64
parallel_config:
  data_parallel: 8
  model_parallel: 1
  pipeline_stage: 1
  micro_batch_num: 16
  vocab_emb_dp: True
  gradient_aggregation_group: 4
micro_batch_interleave_num: 1
recompute_config:
  recompute: True
  parallel_optimizer_comm_recompute: False
  mp_comm_recompute: True
  recompute_slice_activation: True
callbacks:
  - type: MFLossMonitor
  - type: CheckpointMointor
    prefix: "llama2_7b"
    save_checkpoint_steps: 100
    integrated_save: False
    async_save: False
  - type: ObsMonitor
context:
  mode: 0
  device_target: "Ascend"
  enable_graph_kernel: False
  max_call_depth: 10000
  max_device_memory: "58GB"
  save_graphs: False
  device_id: 0
model:
  model_config:
    type: LlamaConfig
    batch_size: 1
    seq_length: 4096
    hidden_size: 4096
    num_layers: 32
    num_heads: 32
    vocab_size: 32000
    multiple_of: 256
    rms_norm_eps: 1.0e-5
    bos_token_id: 1
    eos_token_id: 2
    pad_token_id: 0
    ignore_token_id: -100
    compute_dtype: "float16"
    layernorm_compute_type: "float32"
    softmax_compute_type: "float16"
    rotary_dtype: "float16"
    param_init_type: "float32"
    use_past: False
    extend_method: "None"
    use_flash_attention: True
    offset: 0
    top_k: 3
  arch:
    type: LlamaForCausalLM
runner_wrapper:
  type: MFTrainOneStepCell
  scale_sense:
    type: DynamicLossScaleUpdateCell
    loss_scale_value: 65536
    scale_factor: 2
    scale_window: 1000
  use_clip_grad: True
"""


def llama(**changes: Any) -> dict[str, Any]:
    """The sample as a tree; ``changes`` as dotted keys with `__` for the dot, None-able, DELETE to take out."""
    tree: dict[str, Any] = yaml.safe_load(LLAMA)
    for key, value in changes.items():
        *parents, last = key.split("__")
        here = tree
        for parent in parents:
            here = here.setdefault(parent, {})
        if value is DELETE:
            here.pop(last, None)
        else:
            here[last] = value
    return tree


DELETE = object()


def gpt2() -> dict[str, Any]:
    """A model that is no option of ours."""
    config = {"type": "GPT2Config", "seq_length": 1024, "vocab_size": 50257, "hidden_size": 768, "num_layers": 12, "num_heads": 12}
    model = {"model_config": {**config, "hidden_act": "gelu", "compute_dtype": "float16"}, "arch": {"type": "GPT2LMHeadModel"}}
    return llama(trainer__model_name="gpt2", model=model)


def mcore() -> dict[str, Any]:
    """A mixture of experts of mindformers' other architecture, with a loader of its own."""
    config = {
        "model_type": "qwen3_moe",
        "architectures": ["Qwen3MoeForCausalLM"],
        "seq_length": 4096,
        "vocab_size": 151936,
        "hidden_size": 2048,
        "num_hidden_layers": 48,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "head_dim": 128,
        "num_experts": 128,
        "moe_intermediate_size": 768,
        "intermediate_size": 6144,
        "compute_dtype": "bfloat16",
        "params_dtype": "float32",
    }
    loader = {"type": "BlendedMegatronDatasetDataLoader", "sizes": [8000, 0, 0], "config": {"seq_length": 4096, "split": "1, 0, 0"}}
    return llama(use_legacy=False, model={"model_config": config}, train_dataset__data_loader=loader, optimizer={"type": "AdamW"})


def write(tree: dict[str, Any], folder: Path, name: str = "native.yaml") -> Path:
    """``tree`` as a file."""
    path = folder / name
    path.write_text(yaml.safe_dump(tree, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return path
