"""Public faults of configuration text and of composing on a command line, each by its number."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from bridge.samples import LLAMA
from cases.words import TINY, not_composed
from mends import alternatives, findings, quick, run_of
from mindrecipe.bridge.importer import import_file
from mindrecipe.errors import UserError
from mindrecipe.freeze import choose_dir
from mindrecipe.paths import shipped

pytestmark = pytest.mark.usefixtures("here")


def _recipe(here: Path, text: str) -> Path:
    path = here / "recipes/mine.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"# @package _global_\ndefaults:\n  - override /model: llama2_tiny\n{text}", encoding="utf-8")
    return path


def test_c63_none_as_text(tmp_path: Path) -> None:
    not_composed(*TINY, "run.dir=None", says="is the text 'None', not nothing", mend="run.dir=null")
    path = tmp_path / "none.yaml"
    path.write_text(LLAMA.replace("seed: 0", "seed: 0\nremote_save_url: None"), encoding="utf-8")
    assert any("remote_save_url" in note.key for note in import_file(path).of("mended"))


@pytest.mark.parametrize("port", ['"08118"', '"0x10"', "1:30", "yes"])
def test_c65_a_port_is_never_text(port: str) -> None:
    found = not_composed(*TINY, f"launch.master_port={port}", says="launch.master_port")
    assert "launch.master_port=" in (found.mend or "")


def test_c66_an_interpolation_in_a_flow_mapping(here: Path) -> None:
    _recipe(here, "launch:\n  env: {A: ${run.seed}}\n")
    found = not_composed("+recipe=mine", says="not valid YAML")
    assert (found.where or "").startswith("recipes/mine.yaml:") and "quote ${...}" in (found.mend or "")


def test_c68_two_models_never_merge() -> None:
    not_composed("+model=[llama2_7b,llama2_13b]", says="model", mend="model=llama2_7b")
    assert run_of("+model=llama2_7b", "+model=llama2_13b").config.model.num_layers == 40  # the last one, whole


@pytest.mark.parametrize("prefix", ["", "+", "++"])
def test_c69_unknown_keys_whatever_their_prefix(prefix: str) -> None:
    not_composed(*TINY, f"{prefix}model.num_layer=4", says="unknown key 'model.num_layer'", mend="model.num_layers")


@pytest.mark.parametrize("option", ["LLAMA2_7B", "llama2-7b", "lama2_7b"])
def test_c69_unknown_options(option: str) -> None:
    not_composed(f"+model={option}", says=f"model has no option {option!r}", mend="model=llama2_7b")


@pytest.mark.parametrize("path", ["/d/epoch=3.ckpt", "/d/a,b", "/数据/a", "/d/a(1)", "~/d", "/d/a#1", "/d/a b", "/d/100%", "/d/a@b"])
def test_c71_special_characters(path: str) -> None:
    """Either it is taken as it is, or the message has the command line that is."""
    found = [finding for finding in findings(*TINY, f"checkpoint.load={path}", make=run_of) if finding.severity == "error"]
    if found:
        assert f"checkpoint.load={path}"[:12] in (found[0].where or "") and "checkpoint.load=" in (found[0].mend or "")
        choices = alternatives(found[0].mend)
        assert any(run_of(*TINY, *words).config.checkpoint.load == path for words in choices)
    else:
        assert run_of(*TINY, f"checkpoint.load={path}").config.checkpoint.load == path


def test_c72_callbacks_are_keyed() -> None:
    native = quick(*TINY, "native.callbacks.SummaryMonitor.keep=3").lower()
    assert {"type": "SummaryMonitor", "keep": 3} in native["callbacks"] and len(native["callbacks"]) > 1


def test_c74_mappings_merge_and_can_be_replaced() -> None:
    merged = run_of(*TINY, "model.extra={a: 1}", "model.extra.b=2")
    assert merged.config.model.extra == {"a": 1, "b": 2}
    with_delete = run_of(*TINY, "launch.env={A: 1}", "~launch.env.A", "launch.env.B=2")
    assert with_delete.config.launch.env == {"B": "2"}


def test_c75_self_is_explicit_in_every_primary_file() -> None:
    assert "_self_" in yaml.safe_load((shipped("conf") / "train.yaml").read_text(encoding="utf-8"))["defaults"]


@pytest.mark.parametrize("text", ["parallel=data_parallel", "amp=float16", "schedule=1e-3", "model=7", "checkpoint=true"])
def test_c77_a_value_where_an_option_is_meant(text: str) -> None:
    group = text.partition("=")[0]
    not_composed(*TINY, text, says=f"{group} has no option")


def test_c77_a_section_is_no_value(here: Path) -> None:
    _recipe(here, "checkpoint: false\n")
    found = findings("+recipe=mine", make=run_of)
    assert any(finding.severity == "error" and "checkpoint" in finding.what for finding in found)


def test_c78_all_that_can_not_be_resolved_at_once(here: Path) -> None:
    _recipe(here, "run:\n  name: ${nowhere}\n  root: ${oc.env:NOT_SET_AT_ALL}\n")
    found = findings("+recipe=mine", "dataset.cache_dir=???", make=run_of)
    assert {"run.name", "run.root", "dataset.cache_dir"} <= {finding.what.split()[0] for finding in found}


def test_c80_two_runs_never_share_a_directory(here: Path) -> None:
    derived = quick(*TINY).derived
    first = choose_dir(derived)
    first.mkdir(parents=True)
    assert choose_dir(derived) != first
    given = quick(*TINY, "run.dir=same").derived
    (here / "same").mkdir()
    with pytest.raises(UserError, match="exists"):
        choose_dir(given)


def test_c81_the_working_directory_is_where_it_was_launched() -> None:
    settings = yaml.safe_load((shipped("conf") / "train.yaml").read_text(encoding="utf-8"))["hydra"]
    assert settings["job"]["chdir"] is False and settings["run"]["dir"] == "."


def test_c83_jobs_of_a_sweep_have_flat_directories() -> None:
    for knobs in (("run.name=a",), ("run.tags=[/a/b]",)):
        path = choose_dir(quick(*TINY, *knobs).derived)
        assert path.parent.parent.name == "runs" and path.parent.name == (quick(*TINY, *knobs).derived.config.run.name)


def test_c84_completion_imports_nothing_heavy() -> None:
    code = "import sys; import mindrecipe.cli.train, mindrecipe.config.compose; print('mindspore' in sys.modules, 'mindformers' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.split() == ["False", "False"]
