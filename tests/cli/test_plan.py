"""`mindrecipe plan`: what it prints, its exit codes, pictures, scripts' JSON, and published tables."""

from __future__ import annotations

import csv
import io
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from mindrecipe.cli import plan_view
from mindrecipe.plan.memory import LayerMemory
from said import Said

Plan = Callable[..., Said]
SEVEN = ("+model=llama2_7b", "parallel=semi_auto", "amp=O2", "device=ascend_910b", "parallel.model_parallel=4")
STAGES = (*SEVEN, "parallel.pipeline_stage=2", "parallel.micro_batch_num=8")
PUBLISHED = Path(__file__).resolve().parents[2] / "benchmarks" / "published.csv"
pytestmark = pytest.mark.usefixtures("here")


def test_a_run_is_explained(mindrecipe: Plan) -> None:
    code, out, err = mindrecipe("plan", *STAGES, "--layers")
    assert code == 0 and err == ""
    for word in (
        "llama2_7b on 8 x Ascend 910B",
        "stage 0",
        "device: 64 GiB",
        "optimizer state",
        "tokens/s/device",
        "tensor parallel",
        "MFU",
        "checkpoint.save_steps=",
    ):
        assert word in out, word
    assert "activations in flight (MiB)" in out and out.count("\tdense\tnone\t") == 32
    assert "micro batches at least 4 x stages" in out


def test_json_holds_the_same(mindrecipe: Plan) -> None:
    code, out, _ = mindrecipe("plan", *STAGES, "--json", "--layers")
    told = json.loads(out)
    assert code == 0 and told["fits"] and told["layout"]["pipeline_stage"] == 2 and len(told["layers"]) == 32
    for stage in told["stages"]:
        assert stage["total"] == pytest.approx(sum(stage["items"].values()))
    assert told["time"]["step_s"] == pytest.approx(sum(told["time"]["items_s"].values()))
    assert {"name", "good", "what", "why", "mend"} == set(told["advice"][0])


def test_exit_code_where_it_does_not_fit(mindrecipe: Plan) -> None:
    code, out, _ = mindrecipe("plan", "+model=llama2_70b", "device=ascend_910b", "launch.nodes=8", "amp=O2")
    assert code == 1 and "does not fit" in out and "parallel=planned" in out


def test_search_ranks_and_says_why_others_fell_out(mindrecipe: Plan) -> None:
    words = ("plan", "+model=llama2_70b", "device=ascend_910b", "launch.nodes=8", "amp=O2", "--search", "--top", "3")
    code, out, _ = mindrecipe(*words)
    assert code == 0 and "layouts of 64 x Ascend 910B" in out and "fell out:" in out and "because: " in out
    assert "weights and optimizer state alone exceed the device" in out and "3. dp" in out and "4. dp" not in out
    told = json.loads(mindrecipe(*words, "--json").out)
    assert told["considered"] == sum(told["fell_out"].values()) + len(told["best"]) and told["devices"] == 64
    best = told["best"][0]
    # the overrides can be pasted, and price the same
    again = json.loads(mindrecipe("plan", "+model=llama2_70b", "device=ascend_910b", "launch.nodes=8", "amp=O2", *shlex.split(best["overrides"]), "--json").out)  # fmt: skip
    assert again["stops"] == []
    assert again["time"]["step_s"] == pytest.approx(best["step_s"]) and max(s["total"] for s in again["stages"]) == pytest.approx(best["peak_bytes"])  # fmt: skip


def test_what_would_not_start_is_said_beside_its_figures(mindrecipe: Plan) -> None:
    words = ("plan", *SEVEN, "parallel.pipeline_stage=2")
    code, out, _ = mindrecipe(*words)
    assert code == 0 and "stop  this would not start: parallel.micro_batch_num=1 is less than pipeline_stage=2" in out
    assert [each["rule"] for each in json.loads(mindrecipe(*words, "--json").out)["stops"]] == ["mesh.micro_batches"]
    assert json.loads(mindrecipe("plan", *STAGES, "--json").out)["stops"] == []


def test_the_search_computes_in_half_where_nothing_was_said(mindrecipe: Plan) -> None:
    words = ("plan", "+model=llama2_70b", "device=ascend_910b", "launch.nodes=8", "--search", "--top", "1")
    code, out, err = mindrecipe(*words)
    assert code == 0 and "1. dp" in out and "amp=O2 is taken" in err
    code, _, err = mindrecipe(*words, "amp=O0")
    assert code == 2 and "float32" in err and "amp=O2" in err


def test_peaks_without_a_published_source_say_so(mindrecipe: Plan) -> None:
    for device, said in (("ascend_910b3", "no published source"), ("ascend_910b2", "platform_config")):
        words = (*STAGES[:3], f"device={device}", *STAGES[4:])
        assert said in mindrecipe("plan", *words).out
        assert said in json.loads(mindrecipe("plan", *words, "--json").out)["device"]["source"]


def test_headings_are_not_broken_within_words_in_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    monkeypatch.setattr(plan_view, "_console", lambda: Console(file=written, width=60, force_terminal=True, color_system=None))
    plan_view.show_layers([LayerMemory(0, "dense", 0, "none", 1e8, 2e9, 4e9)])
    words = written.getvalue().split()
    assert {"recompute", "parameters", "activations", "flight"} <= set(words)
    assert max(map(len, written.getvalue().splitlines())) <= 60


def test_search_where_nothing_fits(mindrecipe: Plan) -> None:
    code, out, _ = mindrecipe("plan", "+model=llama2_70b", "device=ascend_910b", "amp=O2", "--search", "--global-batch", "16")
    assert code == 1 and "nothing fits" in out and "the smallest needs" in out


def test_planned_is_the_first_of_the_search(mindrecipe: Plan) -> None:
    base = ("+model=llama2_7b", "amp=O2", "device=ascend_910b", "launch.devices_per_node=8")
    best = json.loads(mindrecipe("plan", *base, "--search", "--global-batch", "32", "--json").out)["best"][0]
    taken = json.loads(mindrecipe("plan", *base, "parallel=planned", "parallel.global_batch_size=32", "--json").out)
    assert taken["layout"] == best["layout"] and taken["layout"]["global_batch"] == 32
    kept = json.loads(mindrecipe("plan", *base, "parallel=planned", "parallel.model_parallel=8", "dataset.batch_size=2", "--json").out)
    assert kept["layout"]["model_parallel"] == 8 and kept["layout"]["micro_batch"] == 2
    assert mindrecipe("check", *base, "parallel=planned").code == 0


@pytest.mark.parametrize("option, head", [("--svg", b"<?xml"), ("--png", b"\x89PNG")])
def test_pictures(mindrecipe: Plan, here: Path, option: str, head: bytes) -> None:
    file = here / f"bars.{option[2:]}"
    assert mindrecipe("plan", *STAGES, option, str(file)).code == 0
    assert file.read_bytes().startswith(head)
    code, _, err = mindrecipe("plan", *STAGES, option, "/no/folder/x.svg")
    assert code == 2 and "can't be written" in err


@pytest.mark.parametrize(
    "words, part",
    [
        ((), "plan needs a run"),
        (("+model=llama2_tiny", "device=cpu"), "CPU has no stated memory"),
        (("+model=llama2_7b", "parallel=auto", "amp=O2"), "parallel.mode=auto"),
        ((*SEVEN, "optimizer.type=Came"), "optimizer.type=Came"),
        ((*STAGES, "parallel.pipeline_scheduler=seqpipe"), "sequence pipelines"),
        (("+model=llama2_7b", "--published", "x.csv"), "neither overrides"),
        (("--published", "none.csv"), "can't be read"),
        (("+model=custom", "run.name=x", "model.extra.kv_lora_rank=512", "parallel=semi_auto", "amp=O2"), "model.extra.kv_lora_rank=512"),
        ((*STAGES, "--search", "--layers"), "--search ranks layouts"),
    ],
)
def test_what_can_t_be_planned_is_said_in_one_message(mindrecipe: Plan, words: tuple[str, ...], part: str) -> None:
    code, _, err = mindrecipe("plan", *words)
    assert code == 2 and part in err and err.count("error:") == 1 and "Traceback" not in err


def test_a_table_without_its_columns(mindrecipe: Plan, here: Path) -> None:
    (here / "x.csv").write_text("a,b\n1,2\n")
    code, _, err = mindrecipe("plan", "--published", "x.csv")
    assert code == 2 and "device, model, seq" in err


def test_published_rows(mindrecipe: Plan) -> None:
    code, out, _ = mindrecipe("plan", "--published", str(PUBLISHED))
    assert code == 0 and "6 impossible" in out.splitlines()[-1] and len(out.splitlines()) == 535
    told = json.loads(mindrecipe("plan", "--published", str(PUBLISHED), "--json").out)
    with PUBLISHED.open(newline="", encoding="utf-8") as stream:
        assert len(told) == sum(1 for _ in csv.reader(stream)) - 1
    assert all(row["refused"] or row["claim"] or row["tokens_per_s"] for row in told)


def test_no_mindspore_is_needed() -> None:
    """The verb runs where importing mindspore, mindformers or torch fails."""
    code = "import sys\nfor name in ('mindspore', 'mindformers', 'torch'): sys.modules[name] = None\n"
    code += f"sys.argv = ['mindrecipe', 'plan', *{list(STAGES)!r}]\nfrom mindrecipe.cli.main import main\nmain()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "COLUMNS": "60"}, check=False)
    assert done.returncode == 0 and "step " in done.stdout, done.stderr
