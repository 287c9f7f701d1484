"""Profiles made by hand: a CPU one as mindspore 2.9.0 really writes it, shortened; an Ascend one after the formats of its viewers.

No Ascend machine wrote the latter: columns and keys are those of mindspore/profiler/analysis/viewer (ascend_kernel_details_viewer,
ascend_step_trace_time_viewer, ascend_memory_viewer, ascend_op_memory_viewer, ascend_communication_viewer).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

CELL = "network-DataOrderWrapperCell/network-LlamaForCausalLM/model-LlamaModel/layers-CellList/{layer}-LLamaDecodeLayer"
#: name, microseconds into a step, microseconds
CPU_STEP = (
    (f"Default/{CELL.format(layer=0)}/attention-LLamaAttention/MatMul-op1", 0, 300),
    (f"Default/{CELL.format(layer=1)}/attention-LLamaAttention/MatMul-op2", 300, 300),
    (f"Gradients/Default/{CELL.format(layer=1)}/attention-LLamaAttention/Grad_MatMul/MatMul-op3", 700, 100),
    ("Expand/_SiLU/Mul-op1", 800, 50),
    ("Default/optimizer-AdamW/Mul-op2", 850, 150),
)
_TRACE = "Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,Bubble\n"


def folder(run: Path, rank: int = 0, made: str = "20250101000000000") -> Path:
    path = run / "profile" / f"rank_{rank}" / f"host_1_{made}_ascend_ms"
    for name in ("FRAMEWORK", "ASCEND_PROFILER_OUTPUT"):
        (path / name).mkdir(parents=True, exist_ok=True)
    return path


def cpu(run: Path, *, steps: int = 3, every: int = 1200, scale: float = 1.0, **where: str) -> Path:
    """``steps`` steps of CPU_STEP, one each ``every`` microseconds; operators ``scale`` times as long."""
    path = folder(run, **where)  # type: ignore[arg-type]
    lines = []
    for name, at, took in CPU_STEP:
        times = " ".join(f"{1_796_022_989_000_000_000 + 1000 * (step * every + at)},{scale * took / 1e3:g},0" for step in range(steps))
        lines.append(f"{name};HostCpuOps;{times} \n")
    (path / "FRAMEWORK" / "cpu_op_execute_timestamp_0.txt").write_text("".join(lines))
    records = ["Timestamp(ns),Total Allocated(Byte),Total Reserved(Byte),Total Active(Byte)"]
    records += [f"{1_000_000_000 + 1000 * place},{size},0,{size}" for place, size in enumerate((4096, 96_000_000, 8192))]
    (path / "FRAMEWORK" / "cpu_ms_memory_record_0.txt").write_text("\n".join(records) + "\n")
    return path


def trace(run: Path, rows: Sequence[tuple[int, float, float, float]], rank: int = 0) -> Path:
    """step_trace_time.csv; a row is (step, computing, communication that is not hidden, free), microseconds."""
    path = folder(run, rank) / "ASCEND_PROFILER_OUTPUT" / "step_trace_time.csv"
    told = [
        f"{step},{computing},{exposed},1000.0,{exposed + 1000.0},{free},{computing + exposed + free},0.0"
        for step, computing, exposed, free in rows
    ]
    path.write_text(_TRACE + "\n".join(told) + "\n")
    return path


def kernels(run: Path, *, took: float, every: float, count: int = 40, steps: Sequence[str] = ("5", "6")) -> Path:
    """kernel_details.csv: in each step ``count`` kernels of ``took`` microseconds, one each ``every``."""
    path = folder(run) / "ASCEND_PROFILER_OUTPUT" / "kernel_details.csv"
    lines = ["Step ID,Model ID,Task ID,Stream ID,Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),Block Num"]
    for place, step in enumerate(steps):
        for number in range(count):
            kind = "MatMulV2" if number % 2 else "Mul"
            start = 1_000_000.0 + place * (count * every + 500.0) + number * every
            name = f"Default/{CELL.format(layer=0)}/attention-LLamaAttention/{kind}-op{number}/aclnn{kind}"
            lines.append(f"{step},4294967295,{number},2,{name},{kind},AI_CORE,{start:.3f}\t,{took},0.2,24")
    path.write_text("\n".join(lines) + "\n")
    return path


def pool(run: Path, *, allocated: float, reserved: float, rank: int = 0) -> Path:
    """memory_record.csv and operator_memory.csv of a pool that peaked at so many GiB (the record's MB are 1024 times 1000 bytes)."""
    path = folder(run, rank) / "ASCEND_PROFILER_OUTPUT"
    used, held = (size * 2**30 / (1024 * 1000) for size in (allocated, reserved))
    lines = ["Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Total Active(MB),Device Type"]
    for place, share in enumerate((0.3, 1.0, 0.6)):
        for name in ("MindSpore", "MindSpore+GE"):
            lines.append(f"{name},{1000.5 + place},{share * used},{held},{share * used},NPU:{rank}")
    lines.append(f"APP,1003.5,0.0,{2 * held},0.0,NPU:{rank}")
    (path / "memory_record.csv").write_text("\n".join(lines) + "\n")
    head = "Name,Size(KB),Allocation Time(us),Release Time(us),Active Release Time(us),Duration(us),Active Duration(us)"
    rows = [
        "weight,4096.0,10.0,N/A,N/A,N/A,N/A",
        "Default/MatMul-op1,8192.0,11.0,2011.0,N/A,2000.0,N/A",
        "Default/Mul-op1,16.0,12.0,13.0,N/A,1.0,N/A",
    ]
    (path / "operator_memory.csv").write_text("\n".join([head, *rows]) + "\n")
    return path


def matrix(run: Path) -> Path:
    """communication_matrix.json of two steps: ranks 0 and 1 of a node over HCCS, 0 and 8 over the network."""

    def link(transport: str, size: float, time: float) -> dict[str, object]:
        return {"Transport Type": transport, "Transit Size(MB)": size, "Transit Time(ms)": time, "Bandwidth(GB/s)": round(size / time, 4)}

    step = {
        "p2p": {"receive-total@group": {"8-0": link("RDMA", 10.0, 1.0)}},
        "collective": {
            "allreduce-top1@group": {"0-1": {**link("HCCS", 60.0, 2.0), "op_name": "hcom_allReduce__1"}},
            "allreduce-total@group": {"0-1": link("HCCS", 100.0, 4.0), "0-8": link("RDMA", 50.0, 5.0)},
        },
    }
    path = folder(run) / "ASCEND_PROFILER_OUTPUT" / "communication_matrix.json"
    path.write_text(json.dumps({"step5": step, "step6": step}))
    return path
