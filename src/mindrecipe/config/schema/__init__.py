"""The ONE schema: everything that can be said about a run, as frozen dataclasses.

YAML in conf/ and recipes/ stays sparse; defaults, types, units, choices and documentation live here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mindrecipe.config.schema.knob import KnobDoc, doc_of, knob
from mindrecipe.config.schema.layout import DeviceConfig, MemoryConfig, ParallelConfig, RecomputeConfig
from mindrecipe.config.schema.model import DatasetConfig, ModelConfig
from mindrecipe.config.schema.operation import LaunchConfig, MonitorConfig, ProfileConfig, RulesConfig, RunSection
from mindrecipe.config.schema.training import AmpConfig, CheckpointConfig, EvaluateConfig, OptimizerConfig, ScheduleConfig
from mindrecipe.config.schema.watch import WatchConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """One training run, as written: sections in the order a person thinks of them."""

    run: RunSection = knob(factory=RunSection)
    model: ModelConfig = knob(factory=ModelConfig)
    dataset: DatasetConfig = knob(factory=DatasetConfig)
    parallel: ParallelConfig = knob(factory=ParallelConfig)
    amp: AmpConfig = knob(factory=AmpConfig)
    recompute: RecomputeConfig = knob(factory=RecomputeConfig)
    memory: MemoryConfig = knob(factory=MemoryConfig)
    optimizer: OptimizerConfig = knob(factory=OptimizerConfig)
    schedule: ScheduleConfig = knob(factory=ScheduleConfig)
    checkpoint: CheckpointConfig = knob(factory=CheckpointConfig)
    evaluate: EvaluateConfig = knob(factory=EvaluateConfig)
    device: DeviceConfig = knob(factory=DeviceConfig)
    launch: LaunchConfig = knob(factory=LaunchConfig)
    monitor: MonitorConfig = knob(factory=MonitorConfig)
    profile: ProfileConfig = knob(factory=ProfileConfig)
    rules: RulesConfig = knob(factory=RulesConfig)
    watch: WatchConfig = knob(factory=WatchConfig)
    native: dict[str, Any] = knob(factory=dict, doc="mindformers' own keys, merged over the lowered YAML untouched.")
    omit: dict[str, Any] = knob(
        factory=dict, doc="mindformers' keys left unwritten as long as they would have the value given here ('*': whatever it is)."
    )


__all__ = [
    "AmpConfig",
    "CheckpointConfig",
    "DatasetConfig",
    "DeviceConfig",
    "EvaluateConfig",
    "KnobDoc",
    "LaunchConfig",
    "MemoryConfig",
    "ModelConfig",
    "MonitorConfig",
    "OptimizerConfig",
    "ParallelConfig",
    "ProfileConfig",
    "RecomputeConfig",
    "RulesConfig",
    "RunConfig",
    "RunSection",
    "ScheduleConfig",
    "WatchConfig",
    "doc_of",
    "knob",
]
