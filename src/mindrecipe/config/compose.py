"""Hydra's part: from overrides to one composed tree, with its faults told in our words.

Hydra runs here, in the launcher, and nowhere else. The schema's defaults enter the composition as a plain tree, so that
Hydra merges and we judge: unknown keys and wrong types are found by convert.py, all together and with their place.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from mindrecipe.config import overrides as typed
from mindrecipe.config import search_path
from mindrecipe.config.convert import to_run_config
from mindrecipe.config.explain import HYDRA_FAULTS, explain
from mindrecipe.config.findings import Finding, raise_errors
from mindrecipe.config.keys import nearest_word
from mindrecipe.config.options import options
from mindrecipe.config.provenance import Provenance, Source
from mindrecipe.config.schema import RunConfig
from mindrecipe.config.suggest import nearest
from mindrecipe.errors import UserError
from mindrecipe.paths import shipped

__all__ = ["HYDRA_FAULTS", "PRIMARY", "Composed", "compose", "explain", "prepare", "require_choice"]

PRIMARY = "train"
#: the schema's name in Hydra's store; not one that a file in a user's ./conf would have
_SCHEMA = "mindrecipe_schema"
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Composed:
    """The typed configuration, the option chosen in each group, and where every value was written."""

    config: RunConfig
    choices: dict[str, str]
    provenance: Provenance


def prepare() -> None:
    """Register our sources and the schema with Hydra; idempotent."""
    search_path.register()
    ConfigStore.instance().store(name=_SCHEMA, node=dataclasses.asdict(RunConfig()))


def compose(overrides: list[str]) -> Composed:
    """Compose ``overrides`` (as typed, in any of Hydra's spellings). Raises UserError(s) with everything that is wrong."""
    composed, findings = compose_and_find(overrides)
    raise_errors(findings)
    return composed


def compose_and_find(overrides: list[str]) -> tuple[Composed, list[Finding]]:
    """What can be composed of ``overrides``, and what is wrong with them: where a value is wrong its default stands in.

    Raises UserError(s) where nothing can be composed.
    """
    normalized = typed.normalize(overrides)
    good, findings = normalized.overrides, list(normalized.findings)
    prepare()
    try:
        with initialize_config_dir(str(shipped("conf")), version_base="1.3"):
            defaults = _remember_defaults(GlobalHydra.instance().config_loader())
            tree = hydra_compose(PRIMARY, overrides=list(good), return_hydra_config=True)
    except HYDRA_FAULTS as fault:
        findings.append(explain(fault, overrides))
        raise_errors(findings)
        raise  # raise_errors raised: explain() only gives errors
    choices = {str(group): str(option) for group, option in tree.hydra.runtime.choices.items() if not str(group).startswith("hydra/")}
    provenance = Provenance(_sources(defaults), good)
    plain, unresolved = _plain(tree, provenance)
    findings.extend(unresolved)
    config, wrong = to_run_config(plain, provenance.locate, provenance.written)
    return Composed(config, choices, provenance), findings + wrong


def _remember_defaults(loader: Any) -> list[Any]:
    """The defaults list that ``loader`` composes from, filled when it does: to compute it again costs as much as to compose."""
    seen: list[Any] = []
    merge = loader._compose_config_from_defaults_list

    def merge_and_remember(defaults: list[Any], repo: Any) -> Any:
        seen[:] = defaults
        return merge(defaults=defaults, repo=repo)

    loader._compose_config_from_defaults_list = merge_and_remember
    return seen


def _sources(defaults: list[Any]) -> tuple[Source, ...]:
    found = []
    for entry in defaults:
        path = search_path.find_file(entry.config_path) if entry.config_path and not entry.config_path.startswith("hydra/") else None
        if path is not None:
            found.append(Source(Path(path), entry.package or ""))
    return tuple(found)


def _plain(tree: DictConfig, provenance: Provenance) -> tuple[dict[str, Any], list[Finding]]:
    """Resolve every interpolation; a value that can't be resolved becomes a finding and is left out."""
    findings: list[Finding] = []

    def resolve(node: Any, prefix: str) -> Any:
        if isinstance(node, DictConfig):
            # Hydra's own section is not part of a run
            names = {key: str(key) for key in node if prefix or key != "hydra"}
            children = {name: child(node, key, f"{prefix}{name}") for key, name in names.items()}
            return {name: value for name, value in children.items() if value is not _ABSENT}
        if isinstance(node, ListConfig):
            items = [child(node, index, prefix.rstrip(".")) for index in range(len(node))]
            return [item for item in items if item is not _ABSENT]
        return node

    def child(node: Any, key: Any, dotted: str) -> Any:
        if OmegaConf.is_missing(node, key):
            findings.append(
                Finding(
                    rule="config.missing",
                    severity="error",
                    keys=(dotted,),
                    where=provenance.locate(dotted),
                    what=f"{dotted} must be given",
                    mend=f"{dotted}=<value>",
                )
            )
            return _ABSENT
        try:
            value = node[key]
        except OmegaConfBaseException as fault:
            findings.append(
                Finding(
                    rule="config.interpolation",
                    severity="error",
                    keys=(dotted,),
                    where=provenance.locate(dotted),
                    what=f"{dotted} refers to something that is not there: {str(fault).splitlines()[0]}",
                    mend=_mend_interpolation(str(fault)),
                )
            )
            return _ABSENT
        return resolve(value, f"{dotted}.")

    return resolve(tree, ""), findings


def _mend_interpolation(text: str) -> str:
    missing = re.search(r"Interpolation key '([^']*)' not found", text)
    near = nearest(missing[1], 1) if missing else []
    if near:
        return f"${{{near[0]}}}"
    variable = re.search(r"Environment variable '([^']*)' not found", text)
    return f"set {variable[1]}, or give a default: ${{oc.env:{variable[1]},<default>}}" if variable else "a plain value"


def require_choice(composed: Composed, group: str) -> None:
    """Refuse a composition in which nothing was chosen for ``group``."""
    if composed.choices.get(group) in (None, "None"):
        names = options(group)
        named = composed.config.model.name if group == "model" else None
        near = nearest_word(named, names, 1) if named else []
        small = next((name for name in names if "tiny" in name), names[0])
        raise UserError(
            f"which {group}? none was chosen; there is {', '.join(names)}",
            where=composed.provenance.locate("model.name") if near else None,
            mend=f"+{group}={near[0] if near else small}",
        )
