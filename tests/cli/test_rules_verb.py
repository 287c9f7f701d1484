"""`mindrecipe rules`: the list, one rule, JSON, and the page of the documentation that is made of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mindrecipe.rules import RULES
from mindrecipe.rules.page import markdown

PAGE = Path(__file__).resolve().parents[2] / "docs/rules.md"


def test_the_page_is_up_to_date() -> None:
    """Its last part is `mindrecipe rules ls --markdown`."""
    assert PAGE.read_text(encoding="utf-8").endswith("\n" + markdown(RULES.values())), "mindrecipe rules ls --markdown"


def test_the_list(mindrecipe: Callable[..., Any]) -> None:
    lines = [line.split("\t") for line in mindrecipe("rules", "ls").out.splitlines()]
    assert [line[0] for line in lines] == sorted(RULES)
    assert ["mesh.product", "error", "stops", RULES["mesh.product"].condition] in lines
    listed = json.loads(mindrecipe("rules", "ls", "--json").out)
    assert {rule["id"] for rule in listed} == set(RULES) and all(rule["fails"] and rule["passes"] for rule in listed)
    assert mindrecipe("rules", "ls", "--markdown").out == markdown(RULES.values())


def test_one_rule(mindrecipe: Callable[..., Any]) -> None:
    said = mindrecipe("rules", "show", "mesh.heads").out
    assert "mindformers models/llama/llama_transformer.py" in said and "not possible" in said
    assert "fails:   mindrecipe check +model=llama2_7b parallel=semi_auto" in said and "mend:    parallel.model_parallel=2" in said
    shown = json.loads(mindrecipe("rules", "show", "mesh.heads", "--json").out)
    assert shown["mend"] == "parallel.model_parallel=2" and shown["outcome"] == "stops" and not shown["can_be_silenced"]


def test_words_that_are_no_rule(mindrecipe: Callable[..., Any]) -> None:
    for words, mend in (
        (("show", "heads"), "rules show mesh.heads"),
        (("show", "mesh.head"), "rules show mesh.heads"),
        (("show",), "rules show mesh.heads"),
        (("mesh.heads",), "rules show mesh.heads"),
        (("ls", "mesh.heads"), "rules show mesh.heads"),
        (("shw",), "rules show"),
    ):
        said = mindrecipe("rules", *words)
        assert said.code == 2 and mend in said.err, (words, said.err)
