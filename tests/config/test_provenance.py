"""Where a value was written."""

from __future__ import annotations

from pathlib import Path

from mindrecipe.config.provenance import Provenance, Source, entries, lines


def test_lines_are_those_of_the_file(here: Path) -> None:
    path = here / "x.yaml"
    path.write_text("# c\na:\n  b: 1\n\n  c: {d: 2,\n    e: 3}\nf: [1, {g: 2}]\n", encoding="utf-8")
    assert lines(path) == {"a": 2, "a.b": 3, "a.c": 5, "a.c.d": 5, "a.c.e": 6, "f": 7}


def test_items_of_lists_have_lines_and_scalars_their_letters(here: Path) -> None:
    path = here / "x.yaml"
    path.write_text('a:\n  b: [1_000,\n    x]\n  c:\n    - 010\n    - {d: "5"}\n  e: ${a.b}\n', encoding="utf-8")
    found = entries(path)
    assert {key: (found[key].line, found[key].text) for key in ("a.b.0", "a.b.1", "a.c.0", "a.c.1.d", "a.e")} == {
        "a.b.0": (2, "1_000"),
        "a.b.1": (3, "x"),
        "a.c.0": (5, "010"),
        "a.c.1.d": (6, None),
        "a.e": (7, None),
    }
    assert "a.b.0" not in lines(path), "an item is no key"
    provenance = Provenance((Source(path, "run"),), ("run.a.c=[1]",))
    assert provenance.locate("run.a.b.1") == "x.yaml:3" and provenance.written("run.a.b.0") == "1_000"
    assert provenance.written("run.a.c.0") is None, "the command line wrote it"


def test_an_edited_file_is_read_again(here: Path) -> None:
    path = here / "x.yaml"
    path.write_text("a: 1\n", encoding="utf-8")
    assert lines(path) == {"a": 1}
    path.write_text("\n\na: 1\n", encoding="utf-8")
    assert lines(path) == {"a": 3}


def test_history_is_in_the_order_of_merging(here: Path) -> None:
    (here / "model.yaml").write_text("name: x\nnum_layers: 2\n", encoding="utf-8")
    (here / "recipe.yaml").write_text("model:\n  num_layers: 3\n  extra: {a: 1}\namp: null\n", encoding="utf-8")
    sources = (Source(here / "model.yaml", "model"), Source(here / "recipe.yaml", ""))
    found = Provenance(sources, ("model.num_layers=4", "++model.extra.b=2", "amp=O2"))
    assert found.history("model.num_layers") == ["model.yaml:2", "recipe.yaml:2", "command line: model.num_layers=4"]
    assert found.locate("model.name") == "model.yaml:1"
    assert found.locate("model.hidden_size") is None
    assert found.locate("model.extra.a") == "recipe.yaml:3"
    assert found.locate("model.extra.b") == "command line: ++model.extra.b=2"
    assert found.locate("amp.level") == "recipe.yaml:4", "a null writes every key under it"
    assert found.locate("am") is None and found.locate("run.seed") is None


def test_a_whole_mapping_on_the_command_line_writes_all_of_it() -> None:
    found = Provenance((), ("++optimizer.extra={a: 1}", "model.num_layers=1"))
    assert found.locate("optimizer.extra.a") == "command line: ++optimizer.extra={a: 1}"
    assert found.locate("model.num_heads") is None


def test_files_elsewhere_are_shown_whole(here: Path, tmp_path_factory) -> None:  # type: ignore[no-untyped-def]
    far = tmp_path_factory.mktemp("far") / "y.yaml"
    far.write_text("a: 1\n", encoding="utf-8")
    assert Provenance((Source(far, "run"),), ()).locate("run.a") == f"{far}:1"
