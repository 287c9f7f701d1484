"""ls, show, cp, check, export: what is printed where, exit codes, --json, pipes, narrow terminals."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser

from mindrecipe.config.keys import knobs
from mindrecipe.config.options import groups
from mindrecipe.paths import shipped
from mindrecipe.run import Run

pytestmark = pytest.mark.usefixtures("here")
Cli = Callable[..., Any]
PROGRAM = [sys.executable, "-c", "from mindrecipe.cli.main import main; main()"]


def shell(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PROGRAM, *words], capture_output=True, text=True, env=os.environ | environment, timeout=300, check=False)


def terminal(*words: str, columns: int) -> str:
    """What `mindrecipe` prints on a terminal so wide."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"COLUMNS": str(columns), "TERM": "xterm", "LINES": "40"}
    process = subprocess.Popen([*PROGRAM, *words], stdout=theirs, stderr=theirs, stdin=theirs, env=environment, close_fds=True)
    os.close(theirs)
    read, until = b"", time.monotonic() + 300
    while time.monotonic() < until:
        if select.select([ours], [], [], 0.2)[0]:
            try:
                chunk = os.read(ours, 65536)
            except OSError:
                break
            if not chunk:
                break
            read += chunk
        elif process.poll() is not None:
            break
    assert process.wait(timeout=300) == 0
    os.close(ours)
    return re.sub(r"\x1b\[[0-9;]*m", "", read.decode()).replace("\r\n", "\n")


# --- ls


def test_ls_lists_everything_on_plain_lines(mindrecipe: Cli) -> None:
    said = mindrecipe("ls")
    assert said.code == 0 and said.err == "" and "\x1b" not in said.out
    listed = [line.split("\t") for line in said.out.splitlines()]
    assert all(len(parts) == 2 and parts[1] for parts in listed)
    assert {parts[0].split("=")[0] for parts in listed} == set(groups())
    assert len(listed) == len(list(shipped("conf").glob("*/**/*.yaml"))) + len(list(shipped("recipes").rglob("*.yaml")))


def test_ls_of_a_group_and_as_json(mindrecipe: Cli) -> None:
    assert [line.split("\t")[0] for line in mindrecipe("ls", "amp").out.splitlines()] == ["amp=O0", "amp=O1", "amp=O2", "amp=O3"]
    found = json.loads(mindrecipe("ls", "--json").out)
    assert set(found) == set(groups())
    assert all({"name", "path", "summary", "header"} == set(option) for options in found.values() for option in options)
    assert list(json.loads(mindrecipe("ls", "recipe", "--json").out)) == ["recipe"]


def test_ls_of_nothing(mindrecipe: Cli) -> None:
    said = mindrecipe("ls", "ampp")
    assert said.code == 2 and said.out == ""
    assert "there is no group 'ampp'" in said.err and "mend: mindrecipe ls amp" in said.err


def test_own_files_are_listed_whatever_is_in_them(here: Path, mindrecipe: Cli) -> None:
    (here / "recipes" / "odd.yaml").mkdir(parents=True)
    (here / "recipes" / "latin.yaml").write_bytes(b"# caf\xe9 [bold]x[/y]\na: 1\n")
    (here / "recipes" / "empty.yaml").write_text("", encoding="utf-8")
    said = mindrecipe("ls", "recipe")
    assert said.code == 0
    assert "recipe=latin\tcaf\ufffd [bold]x[/y]\n" in said.out and "recipe=empty\t\n" in said.out and "odd" not in said.out


# --- show


def test_show_lists_every_knob_with_its_default(mindrecipe: Cli) -> None:
    lines = dict(line.split("\t")[0].split("=", 1) for line in mindrecipe("show").out.splitlines())
    assert set(lines) == set(knobs())
    for key, text in lines.items():
        assert OverridesParser.create().parse_override(f"{key}={text}").value() == knobs()[key].default, key
    found = json.loads(mindrecipe("show", "--json").out)
    assert set(found) == set(knobs())
    assert found["parallel.mode"]["choices"] == ["standalone", "data_parallel", "semi_auto", "auto", "hybrid"]


def test_show_of_a_run(mindrecipe: Cli) -> None:
    said = mindrecipe("show", "+model=llama2_7b", "parallel=semi_auto", "amp=O2")
    assert said.code == 0 and said.err == ""
    resolved = yaml.safe_load(said.out.split("# derived")[0])
    assert resolved["parallel"]["data_parallel"] == 8 and resolved["amp"]["compute_dtype"] == "bfloat16"
    derived = yaml.safe_load(said.out.split("never written by hand")[1].split("\namp levels")[0])["derived"]
    assert derived["parameters"] == 6_738_415_616 and derived["device_num"] == 8
    assert "  O2 *: compute bfloat16, param float32, layernorm float32, softmax bfloat16, rotary bfloat16\n" in said.out
    assert "loss scale: none" in said.out
    assert "device=auto is Ascend 910B: parallel.mode=semi_auto needs NPUs" in said.out
    data = json.loads(mindrecipe("show", "+model=llama2_7b", "parallel=semi_auto", "amp=O2", "--json").out)
    assert data["derived"] == derived and data["config"]["model"]["num_layers"] == 32 and data["options"]["amp"] == "O2"
    assert "9.41 GiB a rank, 9.41 s at 1 GiB/s; 8 devices fail every 6,335 h" in said.out and "best every 5.8 h" in said.out
    assert data["save_interval"]["best_steps"] is None and data["save_interval"]["checkpoint_bytes"] == 6_738_415_616 * 12 // 8


def test_show_of_a_model_whose_size_is_not_known(mindrecipe: Cli) -> None:
    said = mindrecipe("show", "+model=custom", "model.extra={type:MyNet}")
    assert said.code == 0 and "no advice how often to save" in said.out
    assert json.loads(mindrecipe("show", "+model=custom", "model.extra={type:MyNet}", "--json").out)["save_interval"] is None


# --- check


def test_check_of_a_sound_run(mindrecipe: Cli) -> None:
    said = mindrecipe("check", "+recipe=tiny_cpu")
    assert said.code == 0 and said.err == ""
    assert re.fullmatch(r"ok: tiny_cpu, [\d.]+ M parameters, 1 x CPU, global batch \d+ x \d+ tokens, \d+ steps\n", said.out)
    assert json.loads(mindrecipe("check", "+recipe=tiny_cpu", "--json").out) == {"ok": True, "findings": []}


def test_check_of_a_run_with_warnings(mindrecipe: Cli) -> None:
    said = mindrecipe("check", "+recipe=tiny_cpu", "checkpoint.save_steps=5000")
    assert said.code == 0
    assert re.match(r"warning: checkpoint.save_steps=5000 is beyond total_steps=\d+  \[checkpoint.interval\]\n  why:  ", said.out)
    assert "\nok (1 to look at above): tiny_cpu" in said.out
    assert json.loads(mindrecipe("check", "+recipe=tiny_cpu", "checkpoint.save_steps=5000", "--json").out)["ok"] is True


@pytest.mark.parametrize("words", [("amp=O4",), ("schedule.lr_end=1",), ("x=1", "y=2")])
def test_check_of_a_run_with_errors(mindrecipe: Cli, words: tuple[str, ...]) -> None:
    said = mindrecipe("check", "+recipe=tiny_cpu", *words)
    assert said.code == 2
    text = "\n" + said.out + said.err
    assert text.count("\nerror: ") == text.count("  at:   command line: ") == text.count("  mend: ") == len(words)
    told = mindrecipe("check", "+recipe=tiny_cpu", *words, "--json")
    found = json.loads(told.out)
    assert told.code == 2 and told.err == "" and found["ok"] is False and len(found["findings"]) == len(words)
    assert all(finding["severity"] == "error" and finding["where"] for finding in found["findings"])


def test_user_text_is_never_taken_for_markup(mindrecipe: Cli) -> None:
    said = mindrecipe("check", "+model=llama2_tiny", 'run.name="[bold]x[/]"')
    assert "[bold]x[/]" in said.out + said.err
    said = mindrecipe("export", "+model=llama2_tiny", "recompute=selective", "recompute.patterns=['[/red].x']")
    assert said.code == 0


# --- export


def test_export_writes_what_lowering_makes(here: Path, mindrecipe: Cli) -> None:
    words = ("+model=llama2_7b", "parallel=semi_auto", "amp=O2")
    said = mindrecipe("export", *words)
    assert said.code == 0 and said.out.startswith("# mindformers 1.9.0 configuration, written by: mindrecipe export model=llama2_7b ")
    native = yaml.safe_load(said.out)
    assert native["model"]["model_config"]["num_layers"] == 32
    assert said.err.startswith("note: train_dataset.data_loader.dataset_files names MindRecords that are to be made")
    assert json.loads(mindrecipe("export", *words, "--format", "json").out) == native
    again = mindrecipe("export", *words, "-o", "x.yaml")
    assert again.code == 0 and again.out == "" and (here / "x.yaml").read_text(encoding="utf-8") == said.out


@pytest.mark.parametrize(
    "words, says",
    [
        (("+recipe=tiny_cpu", "-o", "x.yaml"), "x.yaml exists"),
        (("+recipe=tiny_cpu", "-o", "no/such/folder.yaml"), "can't write no/such/folder.yaml: No such file or directory"),
        (("+recipe=tiny_cpu", "-o", "folder", "--force"), "can't write folder: Is a directory"),
        (("+recipe=tiny_cpu", "--format", "toml"), "--format toml is not yaml or json"),
        (("+recipe=tiny_cpu", "schedule.lr_end=1"), "schedule.lr_end=1 is above"),
        (("+model=llama2_7b", "schedule=cosine_annealing"), "can't be written without schedule.total_steps"),
    ],
)
def test_export_refuses(here: Path, mindrecipe: Cli, words: tuple[str, ...], says: str) -> None:
    (here / "x.yaml").write_text("mine", encoding="utf-8")
    (here / "folder").mkdir()
    said = mindrecipe("export", *words)
    assert said.code == 2 and said.out == "" and says in said.err
    assert (here / "x.yaml").read_text(encoding="utf-8") == "mine"
    assert sorted(path.name for path in here.iterdir()) == ["folder", "x.yaml"]


def test_export_over_a_file(here: Path, mindrecipe: Cli) -> None:
    (here / "x.yaml").write_text("mine", encoding="utf-8")
    assert mindrecipe("export", "+recipe=tiny_cpu", "-o", "x.yaml", "--force").code == 0
    assert yaml.safe_load((here / "x.yaml").read_text(encoding="utf-8"))["run_mode"] == "train"


def test_export_of_ready_records(mindrecipe: Cli) -> None:
    said = mindrecipe(
        "export", "+model=llama2_7b", "parallel=semi_auto", "amp=O2", "dataset=mindrecord", "dataset.files=[/data/a.mindrecord]"
    )
    assert said.err == ""
    assert yaml.safe_load(said.out)["train_dataset"]["data_loader"]["dataset_files"] == ["/data/a.mindrecord"]


# --- cp


def test_cp_and_use_what_was_copied(here: Path, mindrecipe: Cli) -> None:
    said = mindrecipe("cp", "tiny_cpu", "my_tiny")
    assert said.code == 0 and said.out == "recipes/my_tiny.yaml\nuse it as: train +recipe=my_tiny\n"
    ours = (shipped("recipes") / "tiny_cpu.yaml").read_text()
    assert (here / "recipes/my_tiny.yaml").read_text() == ours.replace("\n  name: tiny_cpu", "\n  name: my_tiny")
    assert Run.from_overrides(["+recipe=my_tiny"]).derived.config.run.name == "my_tiny", "it would resume the original's runs"
    assert mindrecipe("check", "+recipe=my_tiny").code == 0
    assert mindrecipe("cp", "model/llama2_7b", "llama2_9b").out.endswith("use it as: train +model=llama2_9b\n")
    assert mindrecipe("check", "+model=llama2_9b", "parallel=semi_auto").code == 0
    assert mindrecipe("cp", "amp/O2").out == "conf/amp/O2.yaml\nuse it as: train amp=O2\n"
    assert mindrecipe("cp", "recipe/tiny_cpu", "b").code == 0


@pytest.mark.parametrize(
    "words, says",
    [
        (("tiny_cpu", "mine"), "recipes/mine.yaml exists"),
        (("tiny_gpu",), "there is no recipe 'tiny_gpu'"),
        (("model/llama2_7c",), "there is no model 'llama2_7c'"),
        (("nope/x",), "there is no recipe 'nope/x'"),
    ],
)
def test_cp_refuses(here: Path, mindrecipe: Cli, words: tuple[str, ...], says: str) -> None:
    (here / "recipes").mkdir()
    (here / "recipes/mine.yaml").write_text("mine", encoding="utf-8")
    said = mindrecipe("cp", *words)
    assert said.code == 2 and says in said.err and said.out == ""
    assert (here / "recipes/mine.yaml").read_text(encoding="utf-8") == "mine"
    assert mindrecipe("cp", "tiny_cpu", "mine", "--force").code == 0


@pytest.mark.parametrize("name", ["../escaped", "/escaped", "a b", "", "x.yaml", "sub/x"])
def test_cp_to_odd_names(here: Path, mindrecipe: Cli, name: str) -> None:
    """The copy is usable under the name that is said, or refused; nothing lands outside of ./recipes."""
    said = mindrecipe("cp", "tiny_cpu", name)
    inside = [path for path in here.rglob("*.yaml")]
    assert not (here.parent / "escaped.yaml").exists() and not Path("/escaped.yaml").exists()
    if said.code == 0:
        (path,) = inside
        assert path.is_relative_to(here / "recipes")
        use = said.out.splitlines()[1].removeprefix("use it as: train ")
        assert mindrecipe("check", use).code == 0
    else:
        assert said.code == 2 and "error: " in said.err and inside == []


# --- usage


@pytest.mark.parametrize("verb", ["ls", "show", "cp", "check", "export"])
def test_help_shows_examples(mindrecipe: Cli, verb: str) -> None:
    said = mindrecipe(verb, "--help")
    assert said.code == 0
    assert "Examples:" in said.out and said.out.count(f"mindrecipe {verb}") >= 3


@pytest.mark.parametrize("words", [("nope",), ("check",), ("cp",), ("ls", "--nope")])
def test_usage_errors(mindrecipe: Cli, words: tuple[str, ...]) -> None:
    said = mindrecipe(*words)
    assert said.code == 2 and "Usage: mindrecipe" in said.err


def test_a_flag_in_place_of_an_override_is_told_as_one(mindrecipe: Cli) -> None:
    said = mindrecipe("check", "--learning-rate=1e-3", "+model=llama2_tiny")
    assert said.code == 2 and "this is not an override" in said.err and "optimizer.learning_rate=1e-3" in said.err


def test_without_words_and_version(mindrecipe: Cli) -> None:
    said = mindrecipe()
    text = said.out + said.err
    assert said.code in (0, 2) and all(f"  {verb} " in text for verb in ("ls", "show", "cp", "check", "export"))
    assert re.fullmatch(r"mindrecipe \d+\.\d+\.\d+\S*\n", mindrecipe("--version").out)


# --- pipes and terminals, in processes of their own


@pytest.mark.parametrize(
    "words, reader", [("ls", "true"), ("show --json", "head -1"), ("show", "true"), ("check +recipe=tiny_cpu", "head -1")]
)
def test_a_reader_that_leaves(words: str, reader: str) -> None:
    program = " ".join(f"'{word}'" for word in PROGRAM)
    done = subprocess.run(
        ["bash", "-c", f"{program} {words} | {reader}; echo ${{PIPESTATUS[0]}} >&2"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stderr == "0\n"


def test_a_full_disk_is_told() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*PROGRAM, "export", "+recipe=tiny_cpu"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=300, check=False
        )
    assert done.returncode == 2 and "No space left on device" in done.stderr and "Traceback" not in done.stderr


def test_a_terminal_without_the_letters() -> None:
    done = shell("check", "+model=llama2_tiny", 'run.name="é数"', PYTHONIOENCODING="ascii")
    assert done.returncode == 0 and r"ok: \xe9\u6570," in done.stdout


def test_words_that_are_not_utf8() -> None:
    done = subprocess.run([*map(os.fsencode, [*PROGRAM, "check"]), b"run.name=\xff"], capture_output=True, timeout=300, check=False)
    assert done.returncode == 2 and b"this is not UTF-8" in done.stderr and b"Traceback" not in done.stderr


def test_a_wide_terminal() -> None:
    shown = terminal("show", columns=160)
    assert re.search(r"^model\.offset +0 +Layers a stage has more", shown, re.MULTILINE)


def test_nothing_is_lost_on_a_narrow_terminal() -> None:
    columns = 50
    shown = terminal("show", columns=columns)
    flat = re.sub(r"\s+", "", shown)
    assert "parallel.optimizer_weight_shard_size" in flat
    assert re.sub(r"\s+", "", knobs()["parallel.data_parallel"].doc.doc) in flat
    run = terminal("show", "+recipe=tiny_cpu", columns=columns)
    assert "…" not in run and "layernorm" in run and run.count("float16") >= 6
    listed = re.sub(r"\s+", "", terminal("ls", "schedule", columns=columns))
    assert "cosine_annealing_restarts" in listed and "Linearwarm-up,thenoneratef" not in listed
    assert "Linearwarm-up,thenhalfacosinedowntolr_end(CosineWithWarmUpLR)." in listed


def test_long_messages_are_not_wrapped_in_a_pipe() -> None:
    done = shell("check", "+model=llama2_7b", "parallel=semi_auto", "parallel.data_parallel=4", COLUMNS="50")
    assert done.returncode == 2
    assert "data_parallel 4 x model_parallel 1 x context_parallel 1 x pipeline_stage 1 = 4, but device_num is 8" in done.stdout
    assert "\x1b" not in done.stdout
