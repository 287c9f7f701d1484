"""One grammar for `x=`, `+x=` and `++x=`; faults in what was typed, with a mend that can be pasted."""

from __future__ import annotations

import shlex

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import example, given
from hypothesis import strategies as st

from mindrecipe.config import keys
from mindrecipe.config.options import groups
from mindrecipe.config.overrides import normalize, quoted
from mindrecipe.config.search_path import GROUP
from mindrecipe.paths import shipped

pytestmark = pytest.mark.usefixtures("here")
_KNOBS = [key for key, knob in keys.knobs().items() if not knob.is_free_mapping]
_names = st.from_regex(r"[a-z_][a-z0-9_]{0,12}(\.[a-z_][a-z0-9_]{0,12}){0,3}", fullmatch=True)
#: anything a shell can hand over: no NUL, no lone surrogates
_texts = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=20)


def _value(text: str) -> object:
    return OverridesParser.create().parse_override(text).value()


@pytest.mark.parametrize("key", _KNOBS)
def test_prefix_of_a_known_key_never_matters(key: str) -> None:
    plain = normalize([f"{key}=1"])
    assert plain.overrides and not plain.findings
    assert normalize([f"+{key}=1"]) == plain == normalize([f"++{key}=1"])


@pytest.mark.parametrize("group", sorted(path.name for path in shipped("conf").iterdir() if path.is_dir()) + [GROUP])
def test_prefix_of_a_group_never_matters(group: str) -> None:
    assert group in groups()
    plain = normalize([f"{group}=x"])
    assert plain.overrides == (f"{group}=x",)
    assert normalize([f"+{group}=x"]) == plain == normalize([f"++{group}=x"])


@given(_names, st.sampled_from(["", "+", "++"]))
def test_unknown_keys_are_refused_whatever_their_prefix(name: str, prefix: str) -> None:
    found = normalize([f"{prefix}{name}=1"])
    if keys.is_known(name) or name in groups() or name.split(".", maxsplit=1)[0] == "hydra":
        return
    assert not found.overrides
    assert name in found.findings[0].what or "written whole" in found.findings[0].what
    assert found.findings[0].where == f"command line: {prefix}{name}=1"


def test_plus_is_told_not_to_help() -> None:
    (finding,) = normalize(["+model.num_layer=4"]).findings
    assert "'+' does not make it one" in finding.what
    assert finding.mend and finding.mend.startswith("model.num_layers=4")


@pytest.mark.parametrize("wrong, right", [("trainer.stpes", None), ("model.num_layer", "model.num_layers"), ("seed", "run.seed")])
def test_nearest_known_keys_are_offered(wrong: str, right: str | None) -> None:
    (finding,) = normalize([f"{wrong}=5"]).findings
    assert finding.mend is not None
    assert (f"{right}=5" if right else "native.<key>") in finding.mend


@given(_texts)
@example("a\\")
@example('\\"')
@example("\\\\")
@example("/d/epoch=3.ckpt")
@example("/数据/a(1)#2~")
def test_quoted_is_what_hydra_reads_back(text: str) -> None:
    if "${" in text:  # an interpolation stays one, also in quotes
        return
    assert _value(f"run.name={quoted(text)}") == text


@given(_texts)
@example("/d/a,b")
@example("a'b")
@example("{'feed_forward\\.mul': true}")
@example("[a")
def test_what_can_not_be_read_is_given_back_ready_to_paste(text: str) -> None:
    """Whatever the value, either it is taken, or the mend pasted into a shell gives a value that is."""
    found = normalize([f"run.name={text}"])
    if found.overrides:
        return
    mend = found.findings[0].mend
    assert mend is not None
    (word, *_) = shlex.split(mend.split("; a sweep")[0].removeprefix("one value with a comma: ").removeprefix("a list: "))
    again = normalize([word])
    assert again.overrides, (text, mend, again.findings)
    if not text.startswith("{") and "${" not in text:
        assert _value(word) == text


@pytest.mark.parametrize("value", ["/d/epoch=3.ckpt", "/数据/a", "/d/a(1)", "~/d", "/d/a#1", 'a"b', "a'b", "{a", "a}", "[a", "/d/a,b"])
def test_paths_that_hydra_can_not_read(value: str) -> None:
    (finding,) = normalize([f"checkpoint.load={value}"]).findings
    assert finding.where == f"command line: checkpoint.load={value}"
    word = shlex.split((finding.mend or "").split("; a sweep")[0].removeprefix("one value with a comma: "))[0]
    assert _value(word) == value


@pytest.mark.parametrize("value", ["/d/a b", "/d/a@b", "/d:a", "a\\b", "/d/a.b-c_d+e", "$x"])
def test_paths_that_need_no_quotes(value: str) -> None:
    assert _value(normalize([f"checkpoint.load={value}"]).overrides[0]) == value


def test_mapping_with_quoted_keys_is_mended_by_taking_the_quotes_away() -> None:
    (finding,) = normalize([r"recompute.patterns={'feed_forward\.mul': true}"]).findings
    assert finding.mend == r"'recompute.patterns={feed_forward\.mul: true}'"
    assert _value(shlex.split(finding.mend)[0]) == {r"feed_forward\.mul": True}


@pytest.mark.parametrize(
    "text, says, mend",
    [
        ("+model=[llama2_7b,llama2_13b]", "takes one option, not a list", "model=llama2_7b"),
        ("+model=llama2_7b,llama2_13b", "a comma makes a sweep", "model=llama2_7b; a sweep: add --multirun"),
        ("parallel={a: 1}", "takes the name of an option", "parallel.<knob>="),
        ("model=null", "takes the name of an option", "mindrecipe ls model"),
        ("amp=", "takes the name of an option", "amp=<option>"),
        ("recipe=null", "takes the name of an option", "leave out"),
        ("~model", "can't be removed", "model=<option>"),
        ("model=[]", "takes one option", "model=<option>"),
        ("model", "not an override", "key=value"),
        ("seed = 5", "not an override", "without spaces"),
        ("--seed=5", "not an override", "key=value"),
        ("", "not an override", "key=value"),
        ("=3", "not an override", "key=value"),
        ("model=", "takes the name of an option", "mindrecipe ls model"),
        ("amp={}", "takes the name of an option", "amp.<knob>"),
        ("parallel.mode", "not an override", "key=value"),
        ("model@pkg.model=", "takes the name of an option", "ls"),
        ("monitor=quiet,full", "a comma makes a sweep", "monitor=quiet"),
        ("schedule=[wsd]", "not a list", "schedule=wsd"),
        ("run=x", "is a section", "run.<knob>="),
        ("dataset.files.0=x", "written whole", "'dataset.files=[x]'"),
        ("dataset.files[0]=x", "written whole", "'dataset.files=[x]'"),
        ("model.offset.1.2=3", "written whole", "'model.offset=[3]'"),
        ("~model.num_layers", "can't be removed", "leave it out"),
        ("~model.num_kv_heads", "can't be removed", "model.num_kv_heads=null"),
        ("dataset.files=a,b", "a comma makes a sweep", "a list: 'dataset.files=[a,b]'; a sweep: add --multirun"),
        ("run.name=caf\udce9", "not UTF-8", "UTF-8"),
    ],
)
def test_faults_of_what_was_typed(text: str, says: str, mend: str) -> None:
    found = normalize([text])
    assert found.overrides == ()
    (finding,) = found.findings
    assert says in finding.what
    assert mend in (finding.mend or "")
    assert finding.where and finding.where.startswith("command line: ")
    assert finding.severity == "error"


@pytest.mark.parametrize("text", ["model=llama2_7b,llama2_13b", "run.seed=1,2", "run.seed=range(1,3)", "amp=choice(O0,O2)"])
def test_commas_are_jobs_of_a_sweep_when_one_was_asked_for(text: str) -> None:
    assert normalize([text], sweep=True).overrides == (text,)
    assert normalize([text]).findings


@pytest.mark.parametrize(
    "text, passed",
    [
        ("native.a.b=1", "++native.a.b=1"),
        ("+native={a: 1}", "++native={a: 1}"),
        ("launch.env.FOO=bar", "++launch.env.FOO=bar"),
        ("optimizer.extra.momentum=0.9", "++optimizer.extra.momentum=0.9"),
        ("~optimizer.extra.momentum", "~optimizer.extra.momentum"),
        ("hydra.verbose=true", "hydra.verbose=true"),
    ],
)
def test_free_mappings_take_any_key(text: str, passed: str) -> None:
    assert normalize([text]).overrides == (passed,)


def test_all_faults_are_found_and_the_good_ones_kept() -> None:
    found = normalize(["model.num_layer=4", "run.seed=3", "x=1", "amp=O1,O2"])
    assert found.overrides == ("run.seed=3",)
    assert len(found.findings) == 3


@pytest.mark.parametrize("text", ["1e-5", "1E5", ".5", "010", "1_000", "0x10", "1:30", "yes", "2024-01-01", "08118", "5.0", "1e3"])
def test_a_text_is_taken_as_typed(text: str) -> None:
    assert _value(normalize([f"run.name={text}"]).overrides[0]) == text
    assert _value(normalize([f"launch.env.X={text}"]).overrides[0]) == text
    assert _value(normalize([f"run.tags=[a,{text}]"]).overrides[0])[1] == text  # type: ignore[index]


def test_numbers_stay_numbers_where_they_are_wanted() -> None:
    assert normalize(["optimizer.learning_rate=1e-5", "run.seed=1_000"]).overrides == ("optimizer.learning_rate=1e-5", "run.seed=1_000")
    assert normalize(["launch.env.X=true"]).overrides == ('++launch.env.X="true"',)
    assert normalize(["optimizer.extra.nesterov=true"]).overrides == ("++optimizer.extra.nesterov=true",)


def test_a_tilde_alone_is_nothing() -> None:
    assert normalize(["run.name=~"]).overrides == ("run.name=null",)
    assert normalize(["run.seed=~"]).findings
