"""Did you mean: the overrides nearest to one that means nothing here, whatever is wrong with it.

A name is cut into words, abbreviations are written out, and the words are compared with those of every knob and group, by our own
names and by the names other programs have for them (foreign.py). Spelling counts letter by letter, so that `numlayers`, `n-layers` and
`num_layres` all find `num_layers`. The section is a hint, never a condition: the same key is looked for in every other section.
"""

from __future__ import annotations

import difflib
import functools
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from mindrecipe.config.foreign import OPTIONS, SECTIONS, VALUES
from mindrecipe.config.foreign_names import NAMES
from mindrecipe.config.keys import FREE, is_known, knobs, nearest_word, sections
from mindrecipe.config.likeness import letters, likeness, words
from mindrecipe.config.options import groups, options

#: below this nothing is suggested
_FAR = 0.5
#: nothing that is so much less like it than the best
_BEHIND = 0.45
#: what the right section adds, and the first of several sections a little more
_SECTION = 0.2
#: what a knob's own name, written as it is, adds: it is looked for in all sections
_OWN_NAME = 0.15
#: how people say that something is not to be
_NOTHING = ("none", "no", "never", "null", "false", "disable", "disabled", "0")
#: what the knob is often called that says which kind a section is of
_KIND = ("name", "type", "mode", "kind", "class", "level", "policy", "option", "style", "variant", "target", "source", "algorithm")
_FLAG = re.compile(r"--?(?P<name>[A-Za-z][\w.-]*)(=(?P<value>.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Phrase:
    """One name of a target: its words, and the section it is in."""

    target: str
    words: tuple[str, ...]
    section: str


def nearest(key: str, limit: int = 3) -> list[str]:
    """Known keys that look or mean like ``key``, best first."""
    found = [text.split()[-1].partition("=")[0] for text in _ranked(key, None)]
    return list(dict.fromkeys(name for name in found if is_known(name)))[:limit]


def suggest(key: str, value: str | None = None, limit: int = 3) -> list[str]:
    """Overrides to type in place of ``key=value``, best first; with ``value`` None their keys only."""
    found: list[str] = []
    above, _, last = key.rpartition(".")
    if above.count(".") == 1 and not is_known(above):  # into a mapping, e.g. launch.environment.OMP_NUM_THREADS
        inside = [f"{text}.{last}" for text in nearest(above, 1) if is_known(f"{text}.{last}")]
        found = [shlex.quote(text if value is None else f"{text}={value}") for text in inside]
    for target in _ranked(key, value):
        text = _with_value(target, value)
        if text is not None and text not in found:
            found.append(text)
        if len(found) == limit:
            break
    return found


def suggest_option(group: str, option: str, limit: int = 3) -> list[str]:
    """Overrides to type in place of ``group=option`` where the group has no such option, best first."""
    names = options(group)
    if group == "dataset" and re.search(r"[/*]|\.\w{3,}", option):
        kind = "mindrecord" if "mindrecord" in option else "text"
        return [shlex.join([f"dataset={kind}", f"dataset.files=[{option}]"])]
    same = [name for name in names if _bare(name) == _bare(option)]
    if same:
        return [f"{group}={same[0]}"]
    near = [f"{group}={name}" for name in _near_options(OPTIONS.get(group, {}).get(option.lower(), option), names)]
    exact = [f"{other}={name}" for other in groups() if other != group for name in options(other) if name.lower() == option.lower()]
    # the value of one of the section's knobs: parallel=data_parallel, amp=bfloat16, memory=58GB
    inside = [f"{key}={VALUES.get(option.lower(), option)}" for key in _takes(group, VALUES.get(option.lower(), option))]
    elsewhere = [
        f"{other}={name}"
        for other in groups()
        if other not in (group, "recipe")
        for name in nearest_word(option, options(other), 1)
        if letters(name.lower(), option.lower()) > 0.8
    ]
    return list(dict.fromkeys([*exact, *near[:1], *inside[:1], *near[1:], *inside[1:], *elsewhere]))[:limit]


def nearest_choices(value: str, choices: Iterable[str]) -> list[str]:
    """The choices of a knob that ``value`` may stand for, best first."""
    return _near_options(value, choices)


def suggest_word(text: str) -> list[str]:
    """Overrides to type in place of a word that is none: an option's bare name, `--key=value`, `key: value`."""
    flag = _FLAG.fullmatch(text)
    if flag:
        return suggest_known(flag["name"].replace("-", "_"), flag["value"])
    spaced = re.fullmatch(r"\s*\+*([A-Za-z_][\w./@]*)\s*(?:=|:)\s*(.*?)\s*", text, re.DOTALL)
    if spaced and spaced[2]:
        return suggest_known(spaced[1], spaced[2])
    name = text.strip().removesuffix(".yaml").removeprefix("recipes/").removeprefix("conf/")
    group, _, option = name.rpartition("/")
    chosen = [f"{each}={found}" for each in groups() for found in options(each) if found.lower() in (name.lower(), option.lower())]
    if group in groups():
        chosen.sort(key=lambda choice: not choice.startswith(f"{group}="))
    if chosen:
        return chosen[:3]
    near = [(each, found) for each in ("recipe", "model") for found in nearest_word(name, options(each), 2)]
    near.sort(key=lambda pair: -letters(pair[1], name.lower()))
    return [f"{each}={found}" for each, found in near][:3]


def suggest_known(key: str, value: str | None) -> list[str]:
    """As :func:`suggest`, and ``key`` itself where it is one of ours."""
    if (is_known(key) and key not in sections()) or (key in groups() and value in options(key)):
        return [shlex.quote(f"{key}={value}") if value is not None else f"{key}=<value>"]
    return suggest(key, value)


@functools.cache
def _phrases() -> tuple[_Phrase, ...]:
    """Every name of every knob and group."""
    found = []
    for key in knobs():
        section, _, last = key.rpartition(".")
        found.append(_Phrase(key, words(last), section))
    for group in groups():
        found.append(_Phrase(group, words(group), ""))
    for foreign, targets in NAMES.items():
        for target in targets:
            key = target.split()[-1].partition("=")[0]
            found.append(_Phrase(target, words(foreign), key.rpartition(".")[0] or key))
    return tuple(found)


def _ranked(key: str, value: str | None) -> list[str]:
    """Targets (knobs, groups, whole overrides) by likeness to ``key``, best first."""
    *above, last = [part for part in re.split(r"[./]", key.strip("+~ ")) if part] or [""]
    section = _sections_of(above)
    asked = [words(last)]
    if above:
        asked.append((*words(above[-1]), *words(last)))  # lr.warmup_steps, checkpoint.interval
    choices = {group: options(group) for group in groups()} if value is not None else {}
    best: dict[str, float] = {}
    kind = last.lower() in _KIND and len(above) == 1 and section and section[0]
    if kind:
        best |= {key: 2.0 for key in knobs() if key.rpartition(".")[0] == kind and key.rpartition(".")[2] in _KIND}
        best |= {kind: 2.2} if value is not None and _near_options(value, choices.get(kind, [])) else {}
    for order, phrase in enumerate(_phrases()):
        own = [phrase.words] if not phrase.section else [phrase.words, (*words(phrase.section), *phrase.words)]
        score = max(likeness(each, other) for each in asked for other in own)
        if score < _FAR:
            continue
        if phrase.words == asked[0] and order < len(knobs()):
            score += _OWN_NAME
        score += _section_bonus(phrase.section, section) - order * 1e-6 + _value_bonus(phrase.target, value, choices, dotted=bool(above))
        best[phrase.target] = max(best.get(phrase.target, 0.0), score)
    near = max(best.values(), default=0.0) - _BEHIND
    return sorted((target for target, score in best.items() if score >= near), key=lambda target: -best[target])


def _sections_of(above: list[str]) -> tuple[str, ...]:
    """Our sections that the words before the last name may stand for."""
    found: list[str] = []
    for part in reversed(above):
        name = part.lower()
        near = SECTIONS.get(name) or tuple(difflib.get_close_matches(name, sections(), n=1, cutoff=0.7))
        found.extend(near or SECTIONS.get(next(iter(difflib.get_close_matches(name, SECTIONS, n=1, cutoff=0.8)), ""), ()))
    return tuple(dict.fromkeys(found))


def _section_bonus(section: str, wanted: tuple[str, ...]) -> float:
    return _SECTION * (1 - 0.1 * min(wanted.index(section), 4)) if section in wanted else 0.0


def _value_bonus(target: str, value: str | None, choices: Mapping[str, list[str]], *, dotted: bool) -> float:
    """A group is meant where the value is one of its options, and a knob where the value is one it takes."""
    if value is None:
        return 0.2 if target in sections() and not dotted else 0.0
    if target in choices:
        known = choices[target]
        return 0.15 if value in known else 0.05 if nearest_word(VALUES.get(value.lower(), value), known, 1) else -0.4
    knob = knobs().get(target)
    if knob is None or not knob.doc.choices:
        return 0.0
    return 0.05 if VALUES.get(value.lower(), value) in knob.doc.choices else -0.05


def _with_value(target: str, value: str | None) -> str | None:
    """``target`` with ``value``, ready to paste; None where it can't have it."""
    if value is None or "=" in target:
        return target
    knob = knobs().get(target)
    if knob is None and target in groups():
        known = options(target)
        near = [value] if value in known else _near_options(value, known)
        return f"{target}={near[0]}" if near else None
    if knob is None:
        return shlex.quote(f"{target}={value}") if target not in sections() else None
    ours = VALUES.get(value.lower(), value)
    return shlex.quote(f"{target}={ours if ours in knob.doc.choices else value}")


def _near_options(option: str, names: Iterable[str]) -> list[str]:
    """Options that look like ``option``, contain it, or are what others call so."""
    known = list(names)
    ours = VALUES.get(option.lower(), option)
    plain = {_bare(name): name for name in reversed(known)}
    bare = _bare(ours)
    same = [plain[bare]] if bare in plain else ["off"] if option.lower() in _NOTHING and "off" in known else []
    inside = [name for name in known if len(bare) > 2 and bare in _bare(name)]
    said = set(_pieces(ours))
    by_words = [name for name in known if said and (said <= set(_pieces(name)) or set(_pieces(name)) <= said)]
    return list(dict.fromkeys([*same, *nearest_word(ours, known, 1), *by_words, *inside, *nearest_word(ours, known, 3)]))


def _bare(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _pieces(name: str) -> list[str]:
    return [piece for piece in re.split(r"[^a-z0-9]+", name.lower()) if piece]


def _takes(group: str, value: str) -> Iterator[str]:
    """Knobs of the section of ``group`` that a value of this form is for."""
    for key, knob in knobs().items():
        if key.rpartition(".")[0] != group or key in FREE:
            continue
        if value in knob.doc.choices:
            yield key
    if group == "memory" and re.fullmatch(r"\d+(\.\d+)?GB", value):
        yield "memory.max_device_memory"
    numbers = {"launch": "launch.workers", "checkpoint": "checkpoint.save_steps", "parallel": "parallel.data_parallel"}
    if group in numbers and re.fullmatch(r"[1-9]\d{0,5}", value):
        yield numbers[group]
    if "/" in value and group == "checkpoint":
        yield "checkpoint.load"
