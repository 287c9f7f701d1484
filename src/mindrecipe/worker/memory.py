"""Memory of one rank in bytes: the device's peak on Ascend, the resident set of the process on CPU."""

from __future__ import annotations

import os
from collections.abc import Callable


def gauge(device_target: str, *, on: bool) -> Callable[[], int | None]:
    """A function to call once a step; it returns None when measuring is off.

    On CPU mindspore.runtime's statistics are always 0, hence the process's own: read from /proc, as psutil reads it, but from a file that
    stays open; to open it takes longer than all else that is done at a step.
    """
    if not on:
        return lambda: None
    if device_target == "CPU":
        statm, page = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC), os.sysconf("SC_PAGE_SIZE")
        return lambda: int(os.pread(statm, 64, 0).split()[1]) * page
    from mindspore import runtime

    return lambda: int(runtime.max_memory_allocated())
