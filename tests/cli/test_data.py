"""mindrecipe data check: what it says, in which exit code, and the quick pass before a launch."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from data.records import write_record
from mends import TINY, run_of
from mindrecipe.datacheck import quick_findings
from mindrecipe.errors import UserError
from said import Said

pytestmark = pytest.mark.usefixtures("here")
SMALL = (TINY, "model.seq_length=16", "model.vocab_size=100", "dataset=mindrecord")
Command = Callable[..., Said]


def ready(name: str = "a.mindrecord", column: str = "input_ids", bad: bool = False, rows: int = 40) -> str:
    content = [{column: [1 + (seed * 7 + place * 3) % 99 for place in range(17)]} for seed in range(rows)]
    content = [{column: [seed % 99 + 1, seed // 99 + 1, *row[column][2:]]} for seed, row in enumerate(content)]
    if bad:
        content[33][column] = [5] * 16 + [100]
    return write_record(Path(name), {column: "int32"}, content)


def test_sound_data(mindrecipe: Command) -> None:
    ready()
    said = mindrecipe("data", "check", *SMALL, "dataset.files=[a.mindrecord]", "--all")
    assert said.code == 0, said
    assert "40 of 40 rows read (all)" in said.out and "shards: 1, each 40 rows and 5 steps an epoch" in said.out
    assert said.out.splitlines()[-1] == "ok"


def test_an_error_names_file_and_row(mindrecipe: Command) -> None:
    path = ready(bad=True)
    said = mindrecipe("data", "check", *SMALL, "dataset.files=[a.mindrecord]")
    assert said.code == 1 and f"{path}, row 33" in said.out and "id 100 at position 16" in said.out
    told = json.loads(mindrecipe("data", "check", *SMALL, "dataset.files=[a.mindrecord]", "--json").out)
    assert told["ok"] is False and told["findings"][0]["rule"] == "data.ids" and told["report"]["shards"]["ranks"] == 1


def test_what_can_not_be_read(mindrecipe: Command) -> None:
    said = mindrecipe("data", "check", *SMALL, "dataset.files=[b.mindrecord]")
    assert said.code == 2 and "there is no file" in said.err and "None" not in said.err
    said = mindrecipe("data", "check", TINY, "dataset=text", "dataset.files=[b.txt]")
    assert said.code == 2 and "None" not in said.err
    Path("c.txt").write_text("some text\n" * 500, encoding="utf-8")
    said = mindrecipe("data", "check", TINY, "dataset=text", "dataset.files=[c.txt]")
    assert said.code == 2 and "not built yet" in said.err and "--build" in said.err
    said = mindrecipe("data", "check", TINY, "dataset=text", "dataset.files=[c.txt]", "run.name='a b'")
    _, _, pasted = said.err.partition("mend: mindrecipe ")
    assert shlex.split(pasted) == ["data", "check", "--build", TINY.lstrip("+"), "dataset=text", "dataset.files=[c.txt]", "run.name='a b'"]
    said = mindrecipe("data", "chekc", TINY)
    assert said.code == 2 and "mindrecipe data check" in said.err


def test_columns_that_are_not_there_are_named_with_those_that_are(mindrecipe: Command) -> None:
    ready(column="tokens")
    said = mindrecipe("data", "check", *SMALL, "dataset.files=[a.mindrecord]")
    assert said.code == 2 and "no array column input_ids; its columns: tokens (int32)" in said.err
    assert "'dataset.columns=[tokens]'" in said.err
    assert mindrecipe("data", "check", *SMALL, "dataset.files=[a.mindrecord]", "dataset.columns=[tokens]").code == 0
    said = mindrecipe("data", "check", *SMALL, "dataset.files=[a.mindrecord]", "dataset.columns=[token]")
    assert said.code == 2 and "no array column token;" in said.err
    with pytest.raises(UserError, match="no array column nope"):
        run_of(*SMALL, "dataset.files=[a.mindrecord]", "dataset.columns=[nope]").prepare()


def test_ids_beyond_the_vocabulary_under_another_name(mindrecipe: Command) -> None:
    ready(column="tokens", bad=True)
    said = mindrecipe("data", "check", *SMALL, "dataset.files=[a.mindrecord]", "dataset.columns=[tokens]")
    assert said.code == 1 and "id 100" in said.out


def test_the_quick_pass_tells_errors_and_what_is_frequent_only() -> None:
    ready(rows=4000)
    run = run_of(*SMALL, "dataset.files=[a.mindrecord]").prepare()
    assert quick_findings(run.derived) == []
    ready("b.mindrecord", bad=True)
    found = quick_findings(run_of(*SMALL, "dataset.files=[b.mindrecord]").prepare().derived)
    assert [(finding.rule, finding.severity) for finding in found] == [("data.ids", "error")]
