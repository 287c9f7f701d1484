"""The hardware catalogue: what one device of each kind can do, each figure with its source.

``CATALOGUE`` holds what a recipe can be for; ``REFERENCE`` what published runs used, so that the planner can be measured on them.
Peaks are dense matrix throughput. GB of memory are 2^30 bytes, as MindSpore's strings count them; bandwidths are in 10^9 bytes/s,
links in one direction and for one device. Huawei publishes figures of servers, not of the variants B1 to B4: where a figure of one has no
published source, its source says so and what it was derived from. A CPU has no stated peak: MFU is not given there.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """One kind of device.

    ``series``: what a machine's NPUs are called where their exact kind is not told (a B2 as 910B: derive/machine.py). ``memory_gb`` in
    2^30 bytes; peaks in TFLOP/s, dense; ``memory_bandwidth`` of its HBM, ``node_bandwidth`` to a neighbour in the node,
    ``network_bandwidth`` out of the node, in 10^9 bytes/s and one direction; None: not published. ``source`` says where the figures
    come from.
    """

    name: str
    title: str
    target: str
    memory_gb: float | None
    peak_half_tflops: float | None
    peak_fp32_tflops: float | None
    bfloat16: bool
    fused_kernels: bool
    devices_per_node: int
    series: str = ""
    peak_fp8_tflops: float | None = None
    peak_fp4_tflops: float | None = None
    memory_bandwidth: float | None = None
    node_bandwidth: float | None = None
    network_bandwidth: float | None = None
    source: str = ""

    def peak_tflops(self, compute_dtype: str) -> float | None:
        """Dense peak for matrix multiplications in ``compute_dtype``; None where it is not published."""
        peaks = {"float32": self.peak_fp32_tflops, "float8": self.peak_fp8_tflops, "float4": self.peak_fp4_tflops}
        return peaks.get(compute_dtype, self.peak_half_tflops)


def _ascend(name: str, title: str, memory: float, peak: float, hbm: float, node: float, network: float, source: str) -> Hardware:
    return Hardware(
        name=name,
        title=title,
        target="Ascend",
        memory_gb=memory,
        peak_half_tflops=peak,
        peak_fp32_tflops=None,
        bfloat16=name != "ascend_910a",
        fused_kernels=True,
        devices_per_node=16 if name == "ascend_910c" else 8,
        series="ascend_910b" if name.startswith("ascend_910b") else name,
        memory_bandwidth=hbm,
        node_bandwidth=node,
        network_bandwidth=network,
        source=source,
    )


def _gpu(
    name: str,
    title: str,
    memory: float,
    peaks: tuple[float, float | None, float | None],
    hbm: float,
    node: float,
    network: float,
    source: str,
    per_node: int = 8,
) -> Hardware:
    half, fp8, fp4 = peaks
    return Hardware(
        name=name,
        title=title,
        target="GPU",
        memory_gb=memory,
        peak_half_tflops=half,
        peak_fp32_tflops=None,
        bfloat16=name != "v100_32gb",
        fused_kernels=True,
        devices_per_node=per_node,
        series=name,
        peak_fp8_tflops=fp8,
        peak_fp4_tflops=fp4,
        memory_bandwidth=hbm,
        node_bandwidth=node,
        network_bandwidth=network,
        source=source,
    )


_A2 = "Atlas 800T A2 data sheet: HCCS full mesh of 392 GB/s both ways, 200 Gbit/s RoCE a device"
#: cores and clock of the 910B, and that its listed peaks are the matrix (cube) and the two vector units of a core together
_CORES = "(8,192 cube + 512 vector) FLOP a cycle"
_HAMI = "HAMi's device-config"
_UNPUBLISHED = "no published source of the peak"

CATALOGUE: dict[str, Hardware] = {
    hardware.name: hardware
    for hardware in (
        Hardware(
            name="cpu",
            title="CPU",
            target="CPU",
            memory_gb=None,
            peak_half_tflops=None,
            peak_fp32_tflops=None,
            bfloat16=False,
            fused_kernels=False,
            devices_per_node=2,
            series="cpu",
            source="none: every CPU is another",
        ),
        _ascend("ascend_910b", "Ascend 910B", 64, 312.5, 1600, 196, 25, f"{_A2}; 2.5 PFLOP/s fp16 and 8 x 64 GB a server; HBM 1.6 TB/s"),
        _ascend("ascend_910b1", "Ascend 910B1", 64, 414, 1600, 196, 25, f"{_A2}; {_UNPUBLISHED}: 414 is what resellers list"),
        _ascend(
            "ascend_910b2",
            "Ascend 910B2",
            64,
            376,
            1600,
            196,
            25,
            f"{_A2}; 376 = 24 cores x {_CORES} x 1.8 GHz, 354 without the vector units (CANN runtime's platform_config/Ascend910B2C.ini; "
            "gitcode.com/cann/ops-cv issue 997, with 1.6 TB/s)",
        ),
        _ascend(
            "ascend_910b3",
            "Ascend 910B3",
            64,
            313,
            1600,
            196,
            25,
            f"{_A2}; {_UNPUBLISHED}: 313 derived from its 20 cores ({_HAMI}) x {_CORES} x the B2's 1.8 GHz; also a server's 2.5 PFLOP/s "
            "over eight",
        ),
        _ascend(
            "ascend_910b4",
            "Ascend 910B4",
            32,
            280,
            800,
            196,
            25,
            f"{_A2}; {_UNPUBLISHED} and bandwidth: 280 is what resellers list, near its 20 cores ({_HAMI}, with 32 GB) x {_CORES} x 1.6 "
            "GHz (278.5); 800 GB/s derived from half the memory of the others",
        ),
        _ascend(
            "ascend_910c",
            "Ascend 910C (one of its two dies: MindSpore's device)",
            64,
            376,
            1600,
            196,
            25,
            "CloudMatrix384 (arXiv 2506.12708): 752 TFLOP/s bf16, 128 GB and 3.2 TB/s a package of two dies, 196 GB/s UB and 200 Gbit/s "
            "each",
        ),
        _ascend(
            "ascend_910a",
            "Ascend 910A",
            32,
            256,
            1200,
            30,
            12.5,
            "Ascend 910 product brief and Hot Chips 2019: 256 TFLOP/s fp16, 32 GB HBM2 at 1.2 TB/s, HCCS 3 x 240 Gbit/s (30 GB/s to "
            "each of three neighbours), 100 Gbit/s RoCE",
        ),
    )
}

_BLACKWELL = "NVIDIA DGX and GB200/GB300 NVL72 data sheets: dense bf16/fp8/fp4, NVLink 5, 400 Gbit/s (800 on B300) a GPU"

REFERENCE: dict[str, Hardware] = {
    hardware.name: hardware
    for hardware in (
        _ascend(
            "ascend_910c_package",
            "Ascend 910C (a whole package of two dies, as tables on Atlas A3 count cards)",
            128,
            752,
            3200,
            392,
            50,
            "CloudMatrix384 (arXiv 2506.12708): twice a die",
        ),
        _gpu("v100_32gb", "V100 32GB", 32, (125, None, None), 900, 150, 12.5, "NVIDIA V100 data sheet (SXM2): NVLink 300 GB/s both ways"),
        _gpu(
            "a100_40gb", "A100 40GB", 40, (312, None, None), 1555, 300, 25, "NVIDIA A100 data sheet (SXM4 40GB): NVLink 600 GB/s both ways"
        ),
        _gpu(
            "a100_80gb", "A100 80GB", 80, (312, None, None), 2039, 300, 25, "NVIDIA A100 data sheet (SXM4 80GB): NVLink 600 GB/s both ways"
        ),
        _gpu(
            "h100_80gb", "H100 80GB", 80, (989.4, 1978.9, None), 3350, 450, 50, "NVIDIA H100 data sheet (SXM5): NVLink 900 GB/s both ways"
        ),
        _gpu("h200", "H200", 141, (989.4, 1978.9, None), 4800, 450, 50, "NVIDIA H200 data sheet: an H100 with 141 GB at 4.8 TB/s"),
        _gpu("b200", "B200", 180, (2250, 4500, 9000), 8000, 900, 50, _BLACKWELL),
        _gpu("b300", "B300", 270, (2250, 4500, 13500), 8000, 900, 100, _BLACKWELL),
        _gpu("gb200", "GB200", 186, (2500, 5000, 10000), 8000, 900, 50, _BLACKWELL, per_node=72),
        _gpu("gb300", "GB300", 279, (2500, 5000, 15000), 8000, 900, 100, _BLACKWELL, per_node=72),
        _gpu(
            "rtx_4090", "RTX 4090", 24, (165.2, 330.3, None), 1008, 16, 12.5, "NVIDIA Ada white paper: fp16 with fp32 accumulation; PCIe 4"
        ),
        _gpu("rtx_a6000", "RTX A6000", 48, (154.8, None, None), 768, 56, 12.5, "NVIDIA RTX A6000 data sheet: 309.7 with sparsity; NVLink"),
    )
}
