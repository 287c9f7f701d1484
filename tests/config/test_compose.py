"""Composition: whose files are found, what the prefix of an override changes (nothing), all faults at once."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mends import LARGE, MACHINE, TINY, alternatives, assert_mends, errors, findings, quick, run_of
from mindrecipe.config.compose import compose
from mindrecipe.config.search_path import find_file, use_config_dir
from mindrecipe.errors import UserError, UserErrors
from mindrecipe.paths import shipped
from mindrecipe.run import Run

pytestmark = pytest.mark.usefixtures("here")
RECIPE = "# @package _global_\ndefaults:\n  - override /model: llama2_tiny\n"


def write(path: str, text: str | bytes) -> Path:
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(text.encode() if isinstance(text, str) else text)
    return target


def line_of(path: Path, line: str) -> str:
    return f"{path}:{path.read_text(encoding='utf-8').splitlines().index(line) + 1}"


@pytest.mark.parametrize(
    "overrides",
    [
        ("model=llama2_tiny", "run.seed=3", "optimizer.extra.momentum=0.9", "native.a.b=1"),
        ("recipe=tiny_cpu", "amp=O2", "model.num_layers=2", "checkpoint.save_minutes=null"),
    ],
)
def test_any_prefix_gives_the_same_run(overrides: tuple[str, ...]) -> None:
    plain = run_of(*overrides)
    for prefix in ("+", "++"):
        assert run_of(*(prefix + text for text in overrides)) == plain


_SETTINGS = {
    "model.num_layers": ["1", "7"],
    "optimizer.learning_rate": ["1e-3", "0.5"],
    "schedule.warmup_steps": ["null", "3"],
    "dataset.files": ["[a.txt]", "b", "[]"],
    "model.offset": ["0", "[1,0]"],
    "amp": ["O1", "O2"],
    "parallel": ["data", "semi_auto"],
    "launch.env.FOO": ["bar", "1"],
    "run.name": ["x", "'a b'"],
    "checkpoint.keep": ["1"],
}


@settings(max_examples=4)
@given(st.data())
def test_a_quick_run_is_the_run_hydra_makes(data: st.DataObject) -> None:
    """The shortcut the other tests take (mends.quick) leads to the same place, and so does every spelling of a prefix."""
    keys = data.draw(st.lists(st.sampled_from(sorted(_SETTINGS)), unique=True, max_size=5))
    chosen = [f"{data.draw(st.sampled_from(['', '+', '++']))}{key}={data.draw(st.sampled_from(_SETTINGS[key]))}" for key in keys]
    made, short = run_of(TINY, *chosen), quick(TINY, *(text.lstrip("+") for text in chosen))
    assert made.config == short.config
    assert made.derived == short.derived


def test_the_plain_composition() -> None:
    run = run_of(TINY)
    assert run.choices["model"] == "llama2_tiny" and run.choices["parallel"] == "standalone" and run.choices["recipe"] == "None"
    assert run.config.model.num_layers == 4 and run.config.schedule.total_steps
    assert run.provenance.locate("model.num_layers") == line_of(shipped("conf") / "model/llama2_tiny.yaml", "  num_layers: 4")
    assert "hydra" not in dataclasses.asdict(run.config)


def test_a_recipe_is_laid_over_its_options_and_the_command_line_over_both() -> None:
    run = run_of("+recipe=llama2_13b_pretrain_16x64g", "parallel.micro_batch_num=32", "amp=O1")
    assert (run.config.parallel.model_parallel, run.config.parallel.micro_batch_num) == (4, 32)
    assert run.choices["model"] == "llama2_13b" and run.choices["amp"] == "O1" and run.config.amp.level == "O1"
    assert run.provenance.locate("parallel.model_parallel") == line_of(
        shipped("recipes") / "llama2_13b_pretrain_16x64g.yaml", "  model_parallel: 4"
    )


def test_the_last_of_two_choices_counts() -> None:
    assert run_of("+model=qwen3_tiny", "model=llama2_tiny").choices["model"] == "llama2_tiny"
    assert run_of(TINY, "run.seed=1", "run.seed=2").config.run.seed == 2


def test_without_a_model_the_models_are_listed() -> None:
    (finding,) = findings("amp=O2")
    assert "which model?" in finding.what and "qwen3_tiny" in finding.what
    assert finding.mend == "+model=llama2_tiny"
    (finding,) = findings(TINY, "model.family=null")
    assert finding.what == "model.family is not set" and finding.mend == "model.family=llama"
    assert finding.where == "command line: model.family=null"


# --- all at once


def test_many_faults_are_reported_together() -> None:
    """N >= 3 in one report, of every kind."""
    with pytest.raises(UserErrors) as told:
        run_of(
            TINY,
            "+model.num_layer=4",
            "run.name=${nope}",
            "run.root=${oc.env:MINDRECIPE_NOT_SET}",
            "run.tags=???",
            "model.hidden_size=wide",
            "optimizer.learning_rate=0",
            "x=1",
            "amp=O1,O2",
        )
    said = {fault.what.split("=")[0].split(" must")[0] for fault in told.value.faults}
    assert len(told.value.faults) == 8, said
    text = str(told.value)
    for word in ("model.num_layer", "Interpolation key 'nope'", "MINDRECIPE_NOT_SET", "run.tags must be given", "model.hidden_size='wide'"):
        assert word in text
    assert text.count("  mend: ") == 8
    assert text.count("  at:   command line: ") == 8


def test_rules_report_together_too() -> None:
    found = errors(*LARGE, "parallel.pipeline_stage=3", "model.num_heads=3", "schedule.lr_end=1", "run.name=a/b")
    assert {"mesh.micro_batches", "mesh.product", "model.heads", "schedule.lr_end", "checkpoint.name"} <= {f.rule for f in found}


@pytest.mark.parametrize(
    "text, mend",
    [
        ("run.name=${model.nme}", "${model.name}"),
        ("run.name=${oc.env:MINDRECIPE_NOT_SET}", "${oc.env:MINDRECIPE_NOT_SET,<default>}"),
        ("run.name=${x:y}", "a plain value"),
    ],
)
def test_interpolations_that_lead_nowhere(text: str, mend: str) -> None:
    (finding,) = findings(TINY, text)
    assert "run.name refers to something that is not there" in finding.what
    assert finding.where == f"command line: {text}" and finding.mend and mend in finding.mend


def test_values_that_refer_to_each_other() -> None:
    (*found,) = findings(TINY, "run.name=${run.root}", "run.root=${run.name}")
    assert found and all(finding.where and finding.mend for finding in found)
    assert run_of(TINY, "run.name=x_${model.num_layers}").config.run.name == "x_4"


# --- unknown options


@pytest.mark.parametrize(
    "text, near",
    [("amp=O4", None), ("amp=o2", "amp=O2"), ("+model=LLAMA2_7B", "model=llama2_7b"), ("parallel=semi", "parallel=semi_auto")],
)
def test_unknown_options(text: str, near: str | None) -> None:
    group = text.lstrip("+").split("=")[0]
    (finding,) = findings(*([TINY] if group != "model" else []), text)
    assert f"{group} has no option {text.split('=')[1]!r}; it has " in finding.what
    for option in (shipped("conf") / group).glob("*.yaml"):
        assert option.stem in finding.what
    assert finding.where == f"command line: {text}"
    assert near is None or finding.mend == near


def test_unknown_option_is_told_with_unknown_keys() -> None:
    assert len(findings(TINY, "amp=O4", "x=1", "model.num_layer=3")) == 3


# --- the user's own files


def test_own_conf_and_recipes_are_found_first() -> None:
    write(
        "conf/model/llama2_tiny.yaml", "# mine\nname: mine\nfamily: llama\nseq_length: 64\nhidden_size: 64\nnum_heads: 2\nnum_layers: 1\n"
    )
    write("conf/amp/mine.yaml", "level: O1\n")
    write("recipes/tiny_cpu.yaml", RECIPE + "run:\n  name: my_recipe\n")
    run = run_of(TINY, "amp=mine")
    assert run.config.model.name == "mine" and run.config.amp.level == "O1"
    assert run.provenance.locate("model.name") == "conf/model/llama2_tiny.yaml:2"
    assert run_of("+recipe=tiny_cpu").config.run.name == "my_recipe"
    assert run_of("+recipe=qwen3_tiny_cpu").config.run.name == "qwen3_tiny_cpu", "the shipped ones are still there"


def test_config_dir_is_found_before_them() -> None:
    write("conf/amp/x.yaml", "level: O1\n")
    write("elsewhere/amp/x.yaml", "level: O2\n")
    write("elsewhere/recipes/r.yaml", RECIPE + "run: {name: far}\n")
    use_config_dir(Path("elsewhere").absolute())
    assert run_of(TINY, "amp=x").config.amp.level == "O2"
    assert run_of("+recipe=r").config.run.name == "far"
    use_config_dir(None)
    assert run_of(TINY, "amp=x").config.amp.level == "O1"


def test_a_changed_working_directory_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    write("a/conf/mygroup/x.yaml", "# @package _global_\nrun: {seed: 7}\n")
    assert findings(TINY, "mygroup=x")
    monkeypatch.chdir("a")
    assert run_of(TINY, "mygroup=x").config.run.seed == 7
    monkeypatch.chdir("..")
    assert findings(TINY, "mygroup=x")


def test_own_groups_and_nested_files() -> None:
    write("conf/site/here.yaml", "# @package _global_\nlaunch:\n  env: {HTTP_PROXY: x}\n")
    write("conf/model/mine/small.yaml", "name: small\nfamily: llama\n")
    write("recipes/team/a.yaml", RECIPE + "run: {name: team_a}\n")
    for prefix in ("", "+", "++"):
        assert run_of(TINY, f"{prefix}site=here").config.launch.env == {"HTTP_PROXY": "x"}
    assert run_of("model=mine/small").config.model.name == "small"
    assert run_of("+recipe=team/a").config.run.name == "team_a"
    assert find_file("recipe/team/a") == Path("recipes/team/a.yaml").resolve()


def test_a_recipe_needs_no_package_line() -> None:
    write("recipes/mine.yaml", "defaults:\n  - override /model: llama2_tiny\nrun:\n  name: bare\n")
    assert run_of("+recipe=mine").config.run.name == "bare"


def test_patterns_in_a_file_are_kept_byte_for_byte() -> None:
    """Keys with dots and backslashes."""
    write(
        "conf/recompute/mine.yaml",
        "policy: selective\npatterns:\n  feed_forward\\.mul: true\n  feed_forward\\.w1\\.activation\\.silu: [2]\n",
    )
    run = run_of(TINY, "recompute=mine")
    assert run.config.recompute.patterns == {r"feed_forward\.mul": True, r"feed_forward\.w1\.activation\.silu": [2]}
    assert errors(TINY, "recompute=mine") == []


def test_mends_of_a_file_are_typed_over_it() -> None:
    write("recipes/mine.yaml", RECIPE + "launch:\n  master_port: 08118\nschedule:\n  lr_end: 0.1\nmodel:\n  num_heads: None\n")
    found = assert_mends("+recipe=mine", keys=("launch.master_port", "model.num_heads", "schedule.lr_end"))
    assert [finding.where for finding in found] == ["recipes/mine.yaml:9", "recipes/mine.yaml:5", "recipes/mine.yaml:7"]
    found = assert_mends("+recipe=mine", "launch.master_port=8118", "model.num_heads=4", keys=("schedule.lr_end",))
    assert found[0].where == "recipes/mine.yaml:7"


def test_dict_overrides() -> None:
    """A mapping merges; ~ first replaces it."""
    write("conf/optimizer/mine.yaml", "type: SGD\nextra: {momentum: 0.9}\n")
    assert run_of(TINY, "optimizer=mine", "optimizer.extra={dampening: 0.1}").config.optimizer.extra == {"momentum": 0.9, "dampening": 0.1}
    replaced = run_of(TINY, "optimizer=mine", "~optimizer.extra", "+optimizer.extra={dampening: 0.1}")
    assert replaced.config.optimizer.extra == {"dampening": 0.1}
    assert run_of(TINY, "optimizer=mine", "~optimizer.extra.momentum").config.optimizer.extra == {}


# --- a table of YAML scalars


def test_scalars_that_are_read() -> None:
    text = """launch: {master_port: 1_2345, cluster_time_out: 60.0}
dataset: {shuffle: yes, files: one.txt, drop_remainder: off}
optimizer: {eps: 1e-8, learning_rate: 3, weight_decay: .5}
run: {name: 2024-01-01, dir: ~, tags: [a, 1]}
model: {name: 007}
checkpoint: {load: 1e3}
"""
    write("recipes/mine.yaml", RECIPE + text)
    config = run_of("+recipe=mine").config
    assert config.launch.master_port == 12345 and config.launch.cluster_time_out == 60
    assert (config.dataset.shuffle, config.dataset.files, config.dataset.drop_remainder) == (True, ["one.txt"], False)
    assert (config.optimizer.eps, config.optimizer.learning_rate, config.optimizer.weight_decay) == (1e-8, 3.0, 0.5)
    assert (config.run.name, config.run.dir, config.run.tags) == ("2024-01-01", None, ["a", "1"])
    assert config.model.name == "007" and config.checkpoint.load == "1e3", "texts as they are written"


def test_scalars_that_are_refused() -> None:
    """Read by YAML as something else than what was meant: each is told with its line, and all mends together are a run."""
    table = {
        "launch: {master_port: 08118, nodes: 0x1G, node_rank: 1:30}": (
            "launch.master_port='08118'",
            "launch.nodes='0x1G'",
            "launch.node_rank: YAML reads 1:30 in base 60",
        ),
        "run: {seed: None, name: true}": ("run.seed is the text 'None'", "run.name=true must be text"),
        "model: {num_layers: 2.5, num_heads: 010, hidden_size: '64 '}": (
            "model.num_layers=2.5",
            "model.num_heads: YAML reads 010 in base 8",
            "model.hidden_size='64 '",
        ),
        "dataset: {shuffle: 'yes', prefetch_size: -1}": ("dataset.shuffle='yes'", "dataset.prefetch_size=-1 must be at least 1"),
        "optimizer: {learning_rate: .inf, weight_decay: '1e-3'}": ("a finite number", "optimizer.weight_decay='1e-3'"),
        "checkpoint: {keep: 1e10, resume: ''}": ("checkpoint.keep must be at most", "checkpoint.resume is an empty text"),
    }
    write("recipes/mine.yaml", RECIPE + "\n".join(table) + "\n")
    found = findings("+recipe=mine")
    assert len(found) == 14
    for line, says in enumerate(table.values(), 4):
        here_said = [finding.what for finding in found if finding.where == f"recipes/mine.yaml:{line}"]
        assert len(here_said) == len(says) and all(any(text in what for what in here_said) for text in says), (line, here_said)
    mends = [word for finding in found for word in alternatives(finding.mend)[0]]
    run = run_of("+recipe=mine", *mends)
    assert run.config.launch.node_rank is None and run.config.model.num_heads == 10, "not what YAML's 1:30 and 010 are"
    assert run.config.launch.master_port == 8118 and run.config.run.name == "true" and run.config.dataset.shuffle is True


# --- broken files


@pytest.mark.parametrize(
    "text, says, line, mend",
    [
        (RECIPE + "model:\n  num_layer: 3\n", "unknown key 'model.num_layer'", 5, "model.num_layers"),
        (RECIPE + "modle:\n  a: 3\n", "unknown key 'modle'", 4, "model or "),
        (RECIPE + "model:\n\tnum_layers: 3\n", "not valid YAML", 5, "no tabs"),
        (RECIPE + "model:\n  num_layers: 3\n  num_layers: 4\n", "duplicate key num_layers", 6, "remove one"),
        (RECIPE + "model:\n  extra: {a: ${run.seed}}\n", "not valid YAML", 5, "'${b}'"),
        (RECIPE + "model: &a\n  num_layers: *b\n", "undefined alias", 5, "quoted"),
        (RECIPE + "model: !!python/object:os.system {}\n", "not valid YAML", 4, "quoted"),
        (RECIPE + "a: [1\n", "not valid YAML", 5, "mend the line"),
        (RECIPE + "? [a, b]\n: 3\n", "unhashable key", 4, "mend the line"),
        ((RECIPE + "run:\n  name: caf\xe9\n").encode("latin-1"), "not UTF-8", 5, "UTF-8"),
        (RECIPE.encode("utf-16"), "not UTF-8", 1, "UTF-8"),
        (RECIPE + "run:\n  name: ${model.nme}\n", "Interpolation key 'model.nme' not found", 5, "${model.name}"),
        (RECIPE + "model: {num_layers: '${'}\n", "model.num_layers: ", 4, "--info"),
        (RECIPE + "model: null\n", "model.family is not set", 4, "model.family=llama"),
        (RECIPE + "model: 7\n", "model is a section with knobs", 4, "model=<option>"),
        (RECIPE + "native: 7\n", "native takes mindformers' keys", 4, "native.<key>"),
        ("hello\n", "unknown key 'hello'", 1, "native.<key>"),
        ("- a\n- b\n", "a list and a mapping can't be merged", None, "--info"),
        (RECIPE + "model: [1, 2]\n", "a list and a mapping can't be merged", None, "--info"),
        ("# @package foo.bar\na: 1\n", "unknown key 'foo'", 1, "native.<key>"),
        ("defaults:\n  - override /model: nope\n", "model has no option 'nope'", 2, None),
        ("defaults:\n  - override /model: llama2_tny\n", "model has no option 'llama2_tny'", 2, "model=llama2_tiny"),
        ("defaults:\n  - override /modle: llama2_tiny\n", "there is no group 'modle'", 2, "override /model: <option>"),
        ("defaults:\n  - /model: llama2_tiny\n", "model is chosen twice", 2, "override /model: <option>"),
        ("defaults: 3\n", "defaults must be a list", 1, "--info"),
        ("a: 1\ndefaults:\n  - null\n", "Unsupported type in defaults", 2, "--info"),
        ("defaults:\n  - nope\n", "Could not load 'recipe/nope'", None, "--info"),
        ("defaults:\n  - {a: 1, b: 2}\n", "Too many keys", None, "--info"),
        ("defaults:\n  - mine\n", "refers to itself", 1, "--info"),
        ("--- \na: 1\n--- \nb: 1\n", "another document", 3, "mend the line"),
    ],
)
def test_broken_recipes_are_told_with_file_and_line(text: str | bytes, says: str, line: int | None, mend: str | None) -> None:
    write("recipes/mine.yaml", text)
    (finding,) = findings("+recipe=mine")
    assert says in finding.what, finding
    assert finding.where == ("recipes/mine.yaml" if line is None else f"recipes/mine.yaml:{line}"), finding
    assert mend is None or mend in (finding.mend or ""), finding


@pytest.mark.parametrize("text", ["", "# nothing\n", "\n\n", "{}\n", "\ufeffrun: {name: x}\n", "run: {name: x}\r\n"])
def test_files_that_say_little_are_fine(text: str) -> None:
    write("recipes/mine.yaml", text)
    assert run_of(TINY, "+recipe=mine").config.run.name in ("mine", "x")
    assert "which model?" in findings("+recipe=mine")[0].what


def test_windows_line_ends() -> None:
    write("recipes/mine.yaml", (RECIPE + "model:\n  num_layers: 3\n  num_heads: x\n").replace("\n", "\r\n"))
    (finding,) = findings("+recipe=mine")
    assert finding.where == "recipes/mine.yaml:6"
    assert run_of("+recipe=mine", "model.num_heads=4").config.model.num_layers == 3


def test_a_foreign_primary_config_is_named() -> None:
    """A project of another Hydra application has a conf/train.yaml of its own."""
    write("conf/train.yaml", "defaults:\n  - _self_\ntrainer: {gpus: 8}\n")
    (finding,) = findings(TINY)
    assert "conf/train.yaml takes the place of mindrecipe's own primary config" in finding.what
    assert finding.where == "conf/train.yaml:1" and "rename it" in (finding.mend or "")


def test_a_file_called_schema_does_no_harm() -> None:
    write("conf/schema.yaml", "model: {num_layers: 2}\n")
    assert run_of(TINY).config.model.num_layers == 4


def test_options_in_a_file_of_an_option_folder() -> None:
    write("conf/model/mine.yaml", "name: mine\nfamily: lama\nseq_length: 32.5\nhidden_size: -3\n")
    found = assert_mends("model=mine", keys=("model.family", "model.seq_length", "model.hidden_size"))
    assert [finding.where for finding in found] == [f"conf/model/mine.yaml:{line}" for line in (2, 3, 4)]


def test_nothing_is_written() -> None:
    for overrides in ([TINY], [TINY, "amp=O4"], [*LARGE]):
        with contextlib.suppress(UserError):
            Run.from_overrides(overrides, machine=MACHINE).check()
    assert list(Path().iterdir()) == []


def test_provenance_keeps_what_was_typed() -> None:
    assert compose([TINY, "++run.seed=3"]).provenance.overrides == ("model=llama2_tiny", "run.seed=3")
