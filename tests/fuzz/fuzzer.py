"""Random command lines and mutated YAML files through `mindrecipe check` and `mindrecipe import`, in this process.

    python tests/fuzz/fuzzer.py --commands 20000 --files 5000 [--seed 1] [--seeds FOLDER] [--minutes 30]

Each must end with exit code 0, 1 or 2, without a traceback, in 2 s of processor time, and write nothing. Prints what does not, with the
seed that makes it again, and exits with 1 if there was any. tests/fuzz/test_fuzz.py runs a small share of it.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import dataclasses
import io
import math
import os
import random
import shlex
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bridge.samples import gpt2, llama, mcore
from mindrecipe.config.foreign import SECTIONS
from mindrecipe.config.foreign_names import NAMES
from mindrecipe.config.keys import knobs, sections
from mindrecipe.config.options import groups, options

#: processor seconds that one may take
LIMIT = 2.0
VALUES = [
    "", "0", "1", "-1", "2", "8", "1e-5", "010", "1:30", "yes", "no", "true", "None", "null", "~", "1_000", "0x10", "08118", "1e400", "nan",
    "-inf", "999999999999999999999", "O2", "o2", "auto", "a b", "a,b", "[1,2]", "[]", "{}", "{a:1}", "{'a': 1}", "[", "]", "{", "}", "(", ")",
    "'", '"', "''", '""', "\\", "a\\", "$x", "${x}", "${model.name}", "${oc.env:HOME}", "${", "${now:%Y}", "=", "a=b", "#", "a#b", "数据", "/d/é",
    "*", "a/**/*.txt", "../..", "/", ".", "%s", "@", "|", ";", "&", "\t", "\n", " ", "\x00", "\x1b[31m", "\udce9", "x" * 3000, "[" * 40, "???",
    "range(1,3)", "choice(a,b)", "glob(*)", "58GB", "0GB", "1.5GB", "float16", "bfloat16", "cpu", "must", "[[1,0],[0,1]]", "[-1,-1,1,1]",
    "sort(1,2)", "int(3)", "str(3)", "json_str('{}')", "shuffle(a,b)", "interval(0,1)", "1.7976931348623157e308", "5e-324", "-0", "+5", "1e3",
]  # fmt: skip
JUNK = [
    "", "-", "--", "=", "+", "++", "~", "+=", "a", "==", "llama2_tiny", "tiny_cpu", "--json", "--seed=5", "--help-me", "-x", "--strict", "~model",
    "~run.seed", "model", "model.", ".model=1", "model..x=1", "a.b.c.d.e.f=1", "@=1", "model@x=llama2_tiny", "+model@model=llama2_7b",
    "hydra.run.dir=x", "hydra/launcher=x", "hydra.searchpath=[file:///nope]", "hydra=x", "hydra.mode=MULTIRUN", "native=1", "native.=1",
    "native.a=${nope}", "omit.context.x='*'", "run=1", "[a]=1", "a[0]=1", "dataset.files.0=x", "model.offset[1]=2", "1=1", "数据=1", "a b=1",
]  # fmt: skip
GOOD = [
    "+model=llama2_tiny",
    "+model=qwen3_tiny",
    "+model=llama2_7b",
    "+recipe=tiny_cpu",
    "+recipe=llama2_70b_pretrain_64x64g",
    "model=custom",
]

#: a value of each kind, for keys that are read as one of the others
KINDS = [
    "null", "true", "false", "0", "2", "-3", "1.5", "word", "[]", "[1]", "[word]", "[[1,2],[3]]", "[{type: MFLossMonitor}]", "[null]", "{}",
    "{a: 1}", "{a: {b: [1]}}", "{type: 3}", "{type: null}", "{TrainCallBack: {stop_step: x}}", "'*'",
]  # fmt: skip


@cache
def native_keys() -> list[str]:
    """Every key and section of the native configurations that runs are lowered to, and callbacks by their types."""
    from mends import LARGE, quick

    found: dict[str, None] = {}

    def walk(tree: Any, path: str) -> None:
        for key, value in tree.items():
            found[f"{path}{key}"] = None
            if isinstance(value, dict):
                walk(value, f"{path}{key}.")
            elif key == "callbacks":
                walk({each["type"]: each for each in value}, f"{path}{key}.")

    stages = ("parallel.pipeline_stage=2", "parallel.micro_batch_num=4", "recompute=selective", "schedule.total_steps=9", "monitor=full")
    for words in (("+model=llama2_tiny", "checkpoint=steps"), (*LARGE, *stages), ("+model=qwen3_8b", *LARGE[1:], *stages)):
        walk(quick(*words).lower(), "")
    return [*found]


@dataclass(frozen=True, slots=True)
class Fault:
    """What went wrong: ``made_by`` is the seed that makes it again."""

    made_by: int
    what: str
    words: list[str]
    detail: str


def command_line(rng: random.Random) -> list[str]:
    """The overrides of one random command line: sound ones, near misses and nonsense, mixed."""
    words = [rng.choice(GOOD)] if rng.random() < 0.9 else []
    known = [*knobs()]
    for _ in range(rng.choice([0, 1, 1, 2, 2, 3, 5])):
        kind = rng.random()
        if kind < 0.45:
            key, value = rng.choice(known), rng.choice(VALUES)
            choices = knobs()[key].doc.choices
            word = f"{key}={rng.choice(choices) if choices and rng.random() < 0.5 else value}"
        elif kind < 0.6:
            group = rng.choice(groups())
            word = f"{group}={rng.choice([*options(group), *options(rng.choice(groups())), *VALUES])}"
        elif kind < 0.7:
            word = f"{rng.choice([*SECTIONS, *sections()])}.{rng.choice([*NAMES]).replace(' ', '_')}={rng.choice(VALUES)}"
        elif kind < 0.85:
            word = mutated(rng, f"{rng.choice(known)}={rng.choice(VALUES)}")
        elif kind < 0.87:
            free = rng.choice(["native", "omit", "launch.env", "model.extra", "optimizer.extra", "schedule.extra", "model.keys"])
            word = f"{free}.{mutated(rng, 'some_key')}={rng.choice(VALUES)}"
        elif kind < 0.93:
            word = f"{rng.choice(['native', 'native', 'native', 'omit'])}.{rng.choice(native_keys())}={rng.choice([*VALUES, *KINDS])}"
        else:
            word = rng.choice(JUNK)
        words.append(rng.choice(["", "", "", "+", "++", "~"]) + word)
    rng.shuffle(words)
    return words


def mutated(rng: random.Random, text: str) -> str:
    """``text`` with one to three letters dropped, doubled, swapped or replaced."""
    letters = list(text)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(letters)) if letters else 0
        what = rng.randrange(4)
        if what == 0 and letters:
            del letters[at]
        elif what == 1:
            letters.insert(at, rng.choice("abcxyz._=-,:[]{}()'\"\\ é#~$/@0"))
        elif what == 2 and at + 1 < len(letters):
            letters[at], letters[at + 1] = letters[at + 1], letters[at]
        elif letters:
            letters[at] = letters[at].swapcase()
    return "".join(letters)


def changed_file(rng: random.Random, seeds: list[bytes]) -> bytes:
    """One of ``seeds`` with lines lost, doubled, indented otherwise, values replaced, bytes broken."""
    lines = rng.choice(seeds).split(b"\n")
    for _ in range(rng.choice([1, 1, 2, 3, 6])):
        at, what = rng.randrange(len(lines)) if lines else 0, rng.randrange(9)
        if not lines:
            lines = [b"a: 1"]
        elif what == 0:
            del lines[at]
        elif what == 1:
            lines.insert(at, lines[rng.randrange(len(lines))])
        elif what == 2:
            lines[at] = rng.choice([b" ", b"  ", b"\t", b"- "]) + lines[at]
        elif what == 3:
            lines[at] = lines[at].lstrip()
        elif what in (4, 5):
            key = lines[at].partition(b":")[0]
            lines[at] = key + b": " + rng.choice([*VALUES, *YAML_VALUES]).encode(errors="surrogateescape")
        elif what == 6:
            broken = bytearray(lines[at] or b"x")
            broken[rng.randrange(len(broken))] = rng.randrange(256)
            lines[at] = bytes(broken)
        elif what == 7:
            lines = lines[: rng.randrange(1, len(lines) + 1)]
        else:
            lines[at] = mutated(rng, lines[at].decode(errors="replace")).encode()
    return b"\n".join(lines)


YAML_VALUES = [
    "[1, [2, [3]]]", "{a: {b: {c: 1}}}", "&x {a: *x}", "*nope", "!!python/object/apply:os.system ['true']", "!!binary aGk=", "2024-01-01", "- 1",
    ">-", "|", "!!set {a, b}", "? a", "<<: {a: 1}", "{<<: 1}", ".inf", ".nan", "'unclosed", "[unclosed", "0o17", "12e03", "1_0.5", "on", "Off",
]  # fmt: skip


def own_seeds() -> list[bytes]:
    """Native configurations of this repository."""
    return [yaml.safe_dump(make(), sort_keys=False).encode() for make in (llama, gpt2, mcore)]


def ended(words: list[str]) -> tuple[int | None, str, float]:
    """(exit code, or None with a traceback; what was said; processor seconds) of `mindrecipe <words>` in this process."""
    from mindrecipe.cli.main import main

    out = io.StringIO()
    before, sys.argv = sys.argv, ["mindrecipe", *words]
    began = time.process_time()
    code: int | None = 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 99
    except BaseException:
        if isinstance(sys.exc_info()[1], KeyboardInterrupt):
            raise
        code = None
        out.write(traceback.format_exc())
    finally:
        sys.argv = before
    return code, out.getvalue(), time.process_time() - began


def judge(seed: int, words: list[str], here: Path, kept: set[str]) -> tuple[int | None, Fault | None]:
    """Run ``words``; what is wrong with how it ended."""
    code, said, seconds = ended(words)
    new = {entry.name for entry in os.scandir(here)} - kept
    if code is None or "Traceback (most recent call last)" in said:
        return code, Fault(seed, "traceback", words, said[-1500:])
    if code not in (0, 1, 2):
        return code, Fault(seed, f"exit code {code}", words, said[-500:])
    if seconds > LIMIT:
        return code, Fault(seed, f"{seconds:.1f} s", words, said[-300:])
    if new:
        return code, Fault(seed, f"wrote {sorted(new)}", words, "")
    if code == 2 and not said.strip():
        return code, Fault(seed, "nothing said", words, "")
    return code, None


@contextlib.contextmanager
def kept_compositions() -> Iterator[None]:
    """Let Hydra keep the merged files of each choice of options: four fifths of a check are spent on merging the same files again.

    What was typed still goes through Hydra's parser and is applied by Hydra.
    """
    from hydra._internal import config_loader_impl as loader
    from hydra._internal.defaults_list import DefaultsList, Overrides

    lists: dict[tuple[str, ...], DefaultsList] = {}
    trees: dict[tuple[Any, ...], Any] = {}
    make, merge = loader.create_defaults_list, loader.ConfigLoaderImpl._compose_config_from_defaults_list

    def create(repo: Any, config_name: str, overrides_list: list[Any], **how: Any) -> DefaultsList:
        given = Overrides(repo=repo, overrides_list=overrides_list)
        words = tuple(each.input_line for each in overrides_list if each not in given.config_overrides)
        if words not in lists:
            lists[words] = make(repo=repo, config_name=config_name, overrides_list=overrides_list, **how)
            return lists[words]
        old = lists[words]
        return dataclasses.replace(old, config_overrides=given.config_overrides)

    def compose(self: Any, defaults: list[Any], repo: Any) -> Any:
        names = tuple((each.config_path, each.package) for each in defaults)
        if names not in trees:
            trees[names] = merge(self, defaults, repo)
        return copy.deepcopy(trees[names])

    loader.create_defaults_list, loader.ConfigLoaderImpl._compose_config_from_defaults_list = create, compose
    try:
        yield
    finally:
        loader.create_defaults_list, loader.ConfigLoaderImpl._compose_config_from_defaults_list = make, merge


def commands(first: int, count: int, codes: Counter[int | None], minutes: float = math.inf) -> Iterator[Fault]:
    """``count`` random command lines through check."""
    with tempfile.TemporaryDirectory() as folder, _inside(Path(folder)), kept_compositions():
        ends = time.monotonic() + 60 * minutes
        for seed in range(first, first + count):
            if time.monotonic() > ends:
                return
            code, fault = judge(seed, ["check", *command_line(random.Random(seed))], Path(folder), set())
            codes[code] += 1
            if sum(codes.values()) % 500 == 0:
                print(f"{sum(codes.values())} command lines", flush=True)
            if fault is not None:
                yield fault


def files(first: int, count: int, seeds: list[bytes], codes: Counter[int | None], minutes: float = math.inf) -> Iterator[Fault]:
    """``count`` mutated YAML files: through import, and each fourth as a recipe of its own through check."""
    with tempfile.TemporaryDirectory() as folder, _inside(Path(folder)):
        Path("recipes").mkdir()
        ends = time.monotonic() + 60 * minutes
        for seed in range(first, first + count):
            if time.monotonic() > ends:
                return
            content = changed_file(random.Random(seed), seeds)
            as_recipe = seed % 4 == 0
            name = "recipes/fuzz.yaml" if as_recipe else "fuzz.yaml"
            Path(name).write_bytes(content)
            words = ["check", "+model=llama2_tiny", "+recipe=fuzz"] if as_recipe else ["import", name]
            code, fault = judge(seed, words, Path(folder), {"recipes", "fuzz.yaml"})
            codes[code] += 1
            if sum(codes.values()) % 500 == 0:
                print(f"{sum(codes.values())} files", flush=True)
            if fault is not None:
                yield fault


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _report(name: str, faults: Iterator[Fault], codes: Counter[int | None], show: Callable[[Fault], None]) -> int:
    began, found = time.monotonic(), 0
    for fault in faults:
        found += 1
        show(fault)
    total = sum(codes.values())
    told = ", ".join(f"{code}: {count}" for code, count in sorted(codes.items(), key=str))
    print(f"{name}: {total} in {time.monotonic() - began:.0f} s, exit codes {told}; {found} faults", flush=True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commands", type=int, default=20000)
    parser.add_argument("--files", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=Path, help="a folder of mindformers YAML files to mutate, beside our own")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop each of the two after so long, and say how far it came")
    given = parser.parse_args()
    seeds = own_seeds() + ([path.read_bytes() for path in sorted(given.seeds.glob("*.yaml"))] if given.seeds else [])

    def show(fault: Fault) -> None:
        print(f"--- seed {fault.made_by}: {fault.what}\n{shlex.join(fault.words)[:400]}\n{fault.detail}", flush=True)

    found = _report("command lines", commands(given.seed, given.commands, codes := Counter(), given.minutes), codes, show)
    found += _report("YAML files", files(given.seed, given.files, seeds, codes := Counter(), given.minutes), codes, show)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
