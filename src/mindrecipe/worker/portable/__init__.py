"""Parts of mindspore and mindformers rewritten in operators that every device has, so that training runs on CPU.

On Ascend none of this is used. Each module holds one part: barrier.py (the Barrier collective), step_cell.py (overflow check of
the training step), norm.py, attention.py, mcore.py (kernels of the models).
"""

from __future__ import annotations

from typing import Any


def before_mindformers() -> None:
    """What must be in place before mindformers is imported: its modules take ``barrier`` by name."""
    from mindrecipe.worker.portable import barrier

    barrier.install()


def replace(native: Any, *, legacy: bool) -> None:
    """Let ``native`` (a MindFormerConfig) train on CPU; a step cell that is not mindformers' own is left alone."""
    from mindrecipe.worker.portable import mcore, norm, step_cell

    wrapper = native.runner_wrapper
    wrapper.type = step_cell.PORTABLE.get(wrapper.type, wrapper.type)
    if not legacy:
        mcore.install()
    elif native.model.model_config.get("layernorm_compute_type") == "float16":
        norm.install_in_llama()
