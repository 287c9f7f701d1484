"""Hydra's, OmegaConf's and PyYAML's faults in our words: what is wrong, in which override or line of a file, and the mend."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from mindrecipe.config import overrides as typed
from mindrecipe.config import provenance, search_path
from mindrecipe.config.findings import Finding
from mindrecipe.config.keys import knobs, nearest_word
from mindrecipe.config.options import groups, options
from mindrecipe.config.suggest import suggest_option

#: what Hydra, OmegaConf and PyYAML raise for what a user wrote; Hydra's defaults lists raise plain ValueErrors
HYDRA_FAULTS = (HydraException, OmegaConfBaseException, yaml.YAMLError, ValueError, RecursionError)
_HOW = "`train --info defaults` shows how the files are combined"


def explain(fault: Exception, overrides: list[str]) -> Finding:
    """``fault``, raised while composing ``overrides``, as a finding."""
    text = str(fault)
    if isinstance(fault, yaml.MarkedYAMLError) and fault.problem_mark is not None:
        return _yaml(fault, fault.problem_mark)
    if isinstance(fault, UnicodeDecodeError):
        return _encoding(fault)
    if isinstance(fault, RecursionError):
        return _finding("a file of the defaults lists, or a value, refers to itself without end", _line(overrides, r"defaults *:"), _HOW)
    missing = re.search(r"Could not find '([\w/]+)/([^'/]*)'", text)
    if missing:
        return _unknown_option(missing[1], missing[2], overrides)
    twice = re.search(r"Multiple values for (\w+)|^(\w+) appears more than once", text)
    if twice:
        group = twice[1] or twice[2]
        return _finding(
            f"{group} is chosen twice in the defaults lists",
            _line(overrides, rf"/?{group} *:"),
            f"in a recipe: `- override /{group}: <option>`",
            group,
        )
    no_match = re.search(r"Could not override '/?([\w/]+)[^']*'. No match in the defaults list", text)
    if no_match:
        return _no_such_group(no_match[1], overrides)
    return _other(fault, text, overrides)


def _other(fault: Exception, text: str, overrides: list[str]) -> Finding:
    merged = re.match(r"Error merging override (\+*([\w.]+)=.*)", text)
    if merged and merged[2] in knobs():
        return _finding(f"{merged[2]} takes a list, not a mapping", typed.where(merged[1]), f"'{merged[2]}=[...]'", merged[2])
    cause = str(fault.__cause__ or "")
    within = re.match(r"In '?([\w/.-]+)'?: (?:\w+ raised while composing config:\n)?", text)
    detail = (text[within.end() :] if within else text).splitlines() or [""]
    reason = cause.splitlines()[0] if cause else ""
    what = f"{detail[0]}{f': {reason}' if detail[0] and reason else reason}"
    if what.startswith("Cannot merge") or "Cannot merge" in reason:
        what = f"{detail[0] if reason else 'the file or value'}: a list and a mapping can't be merged"
    full_key = re.search(r"full_key: (\S+)", f"{text}\n{cause}")
    named = full_key[1] if full_key else ""
    where = _place(text, overrides, named) or (_file(within[1]) if within else None) or _line(overrides, r"defaults *:")
    return _finding(f"{named}: {what}" if named and named not in what else what, where, _HOW, named)


def _unknown_option(group: str, option: str, overrides: list[str]) -> Finding:
    names = options(group)
    near = suggest_option(group, option)
    said = [text for text in overrides if re.fullmatch(rf"\+*{group}(@[^=]*)?=['\"]?{re.escape(option)}['\"]?", text)]
    where = typed.where(said[-1]) if said else _line(overrides, rf"/?{group} *: *['\"]?{re.escape(option)}\b")
    what = f"{group} has no option {option!r}; it has {', '.join(names) or 'none'}"
    return Finding(rule="config.unknown_option", severity="error", keys=(group,), what=what, where=where, mend=" or ".join(near) or None)


def _no_such_group(name: str, overrides: list[str]) -> Finding:
    """Most often a typo in a recipe; where every group is missing, a foreign conf/train.yaml stands before ours."""
    from mindrecipe.config.compose import PRIMARY
    from mindrecipe.paths import shipped

    primary = search_path.find_file(PRIMARY)
    if primary is not None and primary.parent != shipped("conf").resolve():
        return _finding(
            f"{provenance.shown(primary)} takes the place of mindrecipe's own primary config, and its defaults list has no {name}",
            f"{provenance.shown(primary)}:1",
            "rename it: your own whole runs are ./recipes/<name>.yaml",
        )
    near = nearest_word(name, groups(), 1)
    return _finding(
        f"there is no group {name!r} to override",
        _place(f"'{name}'", overrides) or _line(overrides, rf"/?{name} *:"),
        f"override /{near[0]}: <option>" if near else f"the groups are {', '.join(groups())}",
        name,
    )


def _yaml(fault: yaml.MarkedYAMLError, mark: yaml.Mark) -> Finding:
    path = Path(mark.name)
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
    line = lines[mark.line] if mark.line < len(lines) else ""
    if "\t" in (fault.problem or "") or "\\t" in (fault.problem or ""):
        hint = "indent with spaces: YAML takes no tabs"
    elif "${" in line and not re.search(r"""['"][^'"]*\$\{""", line):
        hint = "quote ${...} inside {...}: {a: '${b}'}"
    elif "duplicate key" in (fault.problem or ""):
        hint = "remove one of the two"
    else:
        hint = "mend the line; values with : # { [ , & * ! | > % @ at their start are quoted"
    shown = provenance.shown(path) if path.is_absolute() else mark.name
    return Finding(
        rule="config.yaml", severity="error", what=f"not valid YAML: {fault.problem}", where=f"{shown}:{mark.line + 1}", mend=hint
    )


def _encoding(fault: UnicodeDecodeError) -> Finding:
    """Hydra does not say which file it was reading: find it."""
    for folder in (*search_path.conf_folders(), *search_path.recipe_folders()):
        for path in sorted(folder.rglob("*.yaml")):
            try:
                path.read_text(encoding="utf-8")
            except UnicodeDecodeError as found:
                line = path.read_bytes()[: found.start].count(b"\n") + 1
                return _finding(
                    f"not UTF-8: {found.reason}", f"{provenance.shown(path)}:{line}", f"save {provenance.shown(path)} in the encoding UTF-8"
                )
    return _finding(f"not UTF-8: {fault.reason}", None, "save your YAML files in the encoding UTF-8")


def _place(text: str, overrides: list[str], key: str = "") -> str | None:
    """The last override that ``text`` speaks of, or that set ``key``."""
    names = [(given, given.lstrip("+~").partition("=")[0]) for given in overrides]
    said = [given for given, name in names if name and (f"'{name}'" in text or f"override {name}=" in text or name == key)]
    if said:
        return typed.where(said[-1])
    for path in _chosen(overrides):
        for known, line in provenance.lines(path).items() if key else ():
            if known == key or key.endswith(f".{known}"):
                return f"{provenance.shown(path)}:{line}"
    return None


def _line(overrides: list[str], pattern: str) -> str | None:
    """The first line of a chosen file that matches ``pattern``."""
    for path in _chosen(overrides):
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if not line.lstrip().startswith("#") and re.search(pattern, line):
                return f"{provenance.shown(path)}:{number}"
    return None


def _chosen(overrides: list[str]) -> list[Path]:
    """The files of the options that the overrides choose, last typed first."""
    found = []
    for text in reversed(overrides):
        group, _, option = text.lstrip("+").partition("=")
        path = search_path.find_file(f"{group.split('@')[0]}/{option.strip(chr(34) + chr(39))}") if group in groups() else None
        if path is not None:
            found.append(path)
    return found


def _file(config_path: str) -> str | None:
    path = search_path.find_file(config_path)
    return provenance.shown(path) if path is not None else None


def _finding(what: str, where: str | None, mend: str, key: str = "") -> Finding:
    return Finding(rule="config.compose", severity="error", keys=(key,) if key else (), what=what, where=where, mend=mend)
