"""What older mindformers versions called differently, or had and 1.9.0 has no more: one table, with versions and sources.

A key in a section that 1.9.0 checks (``loads=False``) stops it from loading the file at all: those are renamed or left out, and
said. Where 1.9.0 does load the file, what is written stays as it is, and the report says what it is called now:
`mindrecipe import --update` writes the new name instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mindrecipe.bridge.compare import MISSING
from mindrecipe.bridge.nodes import Lines
from mindrecipe.bridge.notes import Note


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key: ``new`` None where nothing took its place. ``last``: the newest version that had it."""

    old: tuple[str, ...]
    new: tuple[str, ...] | None
    last: str
    source: str
    why: str
    loads: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Type:
    """A registered name: the value of ``type`` in a section."""

    section: str
    old: str
    new: str | None
    last: str
    source: str
    why: str


_RESUMES = "resume_training knows where it was"
_INFERS = "inference alone read it"
_SECTION = "it has a section"
KEYS = (
    Key(old=("runner_config", "epoch"), new=("runner_config", "epochs"), last="0.3", source="r0.2 configs/mae", why="it is called epochs"),
    Key(old=("runner_config", "per_epoch_size"), new=None, last="1.0", source="r1.0 configs/gpt", why="sink_size took its place"),
    Key(old=("runner_config", "initial_epoch"), new=None, last="1.0", source="r1.0 configs", why=_RESUMES),
    Key(old=("runner_config", "has_trained_epoches"), new=None, last="1.0", source="r1.0 configs", why=_RESUMES),
    Key(old=("runner_config", "has_trained_steps"), new=None, last="1.0", source="r1.0 configs", why=_RESUMES),
    Key(old=("runner_config", "load_checkpoint"), new=("load_checkpoint",), last="0.3", source="r0.2 configs", why="it is a top-level key"),
    Key(old=("runner_config", "image_size"), new=None, last="1.3", source="r1.2.0 configs", why="image tasks have left"),
    Key(old=("moe_config", "moe_tensor_parallel"), new=None, last="1.6", source="br_infer_deepseek_ep configs", why=_INFERS),
    Key(old=("moe_config", "moe_expert_parallel"), new=None, last="1.6", source="br_infer_deepseek_ep configs", why=_INFERS),
    Key(
        old=("resume_or_finetune_checkpoint",),
        new=("load_checkpoint",),
        last="0.3",
        loads=True,
        source="r0.3 configs/gpt2/run_gpt2.yaml",
        why="it is called load_checkpoint",
    ),
    *(
        Key(old=(name,), new=("recompute_config", name), last="0.3", loads=True, source="r0.3 configs", why=_SECTION)
        for name in ("recompute", "parallel_optimizer_comm_recompute", "mp_comm_recompute", "recompute_slice_activation")
    ),
    Key(
        old=("context", "jit_level"),
        new=("context", "jit_config", "jit_level"),
        last="1.2",
        loads=True,
        source="mindformers 1.9.0 core/context/build_context.py:412",
        why="training reads jit_config",
    ),
)

_BEFORE_CORE = "r1.5.0 mindformers/core/optim/optim.py"
_BETAS = "beta1, beta2 are betas now"
_ALIAS = "the alias still works"
TYPES = (
    Type(
        section="optimizer",
        old="FP32StateAdamWeightDecay",
        new="AdamW",
        last="1.5",
        source=_BEFORE_CORE,
        why=f"it kept fp32 states over half parameters, as AdamW with amp.param_dtype=float32 does; {_BETAS}",
    ),
    Type(section="optimizer", old="FusedAdamWeightDecay", new="AdamW", last="1.5", source=_BEFORE_CORE, why=_BETAS),
    Type(section="optimizer", old="AdamWeightDecayX", new="AdamW", last="0.3", source="r0.3 configs", why=_BETAS),
    Type(section="optimizer", old="adamw", new="AdamW", last="1.5", source="r1.5.0 core/optim/build_optim.py", why="the alias is gone"),
    Type(section="lr_schedule", old="polynomial", new="PolynomialWithWarmUpLR", last="1.9", source="core/lr/build_lr.py:91", why=_ALIAS),
    Type(section="lr_schedule", old="linear", new="LinearWithWarmUpLR", last="1.9", source="core/lr/build_lr.py:82", why=_ALIAS),
    Type(section="lr_schedule", old="cosine", new="CosineWithWarmUpLR", last="1.9", source="core/lr/build_lr.py:85", why=_ALIAS),
    Type(
        section="callbacks",
        old="CheckpointMointor",
        new="CheckpointMonitor",
        last="1.1",
        source="r1.1.0 core/callback/callback.py:458",
        why="the name was misspelt",
    ),
    Type(
        section="callbacks",
        old="ObsMonitor",
        new=None,
        last="1.5",
        source="r1.5.0 core/callback/callback.py:96",
        why="uploading to OBS has left",
    ),
)


def at(tree: Any, path: tuple[Any, ...]) -> Any:
    """The value at ``path``, MISSING where there is none."""
    for step in path:
        if not isinstance(tree, dict) or step not in tree:
            return MISSING
        tree = tree[step]
    return tree


def put(tree: dict[str, Any], path: tuple[Any, ...], value: Any) -> None:
    """Set the value at ``path``, making the mappings on the way."""
    for step in path[:-1]:
        if not isinstance(tree.get(step), dict):
            tree[step] = {}
        tree = tree[step]
    tree[path[-1]] = value


def renamed(tree: dict[str, Any], lines: Lines, *, update: bool) -> list[Note]:
    """Rename in ``tree`` (changed in place) what stops 1.9.0, and with ``update`` everything; says what was and what could be."""
    return [*_keys(tree, lines, update), *_types(tree, lines, update)]


def _keys(tree: dict[str, Any], lines: Lines, update: bool) -> Iterator[Note]:
    for key in KEYS:
        value = at(tree, key.old)
        if value is MISSING:
            continue
        name, now = ".".join(key.old), ".".join(key.new or ())
        done = update or not key.loads
        free = key.new is not None and at(tree, key.new) in (MISSING, "", None)
        if done:
            parent = at(tree, key.old[:-1]) if len(key.old) > 1 else tree
            del parent[key.old[-1]]
            if free and key.new is not None:
                put(tree, key.new, value)
        then = f"now {now}" if free else f"{now} is there and counts" if now else "left out" if done else "nothing reads it"
        text = f"{name} (up to {key.last}): {then}; {key.why}"
        yield Note(kind="renamed", key=name, value=value, text=text, line=lines.get(key.old), source=key.source, mend=now or None)


def _types(tree: dict[str, Any], lines: Lines, update: bool) -> Iterator[Note]:
    for kind in TYPES:
        section = tree.get(kind.section)
        for place, item in enumerate(section if isinstance(section, list) else [section]):
            if not isinstance(item, dict) or item.get("type") != kind.old:
                continue
            path = (kind.section, place, "type") if isinstance(section, list) else (kind.section, "type")
            if update:
                _update_type(item, kind)
            what = f"{kind.old} is now {kind.new}" if kind.new else f"{kind.old} is no more"
            kept = "" if update else " (kept as written; --update renames it)" if kind.new else " (kept as written; --update leaves it out)"
            text = f"{kind.section} {what} (up to {kind.last}): {kind.why}{kept}"
            yield Note(
                kind="renamed",
                # with the type its arguments change
                key=kind.section if update else ".".join(map(str, path)),
                value=kind.old,
                text=text,
                line=lines.get(path),
                source=kind.source,
                mend=kind.new,
            )
        if update and isinstance(section, list) and kind.new is None:
            tree[kind.section] = [item for item in section if not (isinstance(item, dict) and item.get("type") == kind.old)]


def _update_type(item: dict[str, Any], kind: Type) -> None:
    if kind.new is not None:
        item["type"] = kind.new
    if kind.section == "optimizer" and "beta1" in item and "beta2" in item:
        item["betas"] = [item.pop("beta1"), item.pop("beta2")]
