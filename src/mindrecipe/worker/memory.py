"""Memory of one rank in bytes: the device's peak on Ascend, the resident set of the process on CPU."""

from __future__ import annotations

from collections.abc import Callable


def gauge(device_target: str, *, on: bool) -> Callable[[], int | None]:
    """A function to call once a step; it returns None when measuring is off.

    On CPU mindspore.runtime's statistics are always 0, hence the process's own.
    """
    if not on:
        return lambda: None
    if device_target == "CPU":
        import psutil

        process = psutil.Process()
        return lambda: int(process.memory_info().rss)
    from mindspore import runtime

    return lambda: int(runtime.max_memory_allocated())
