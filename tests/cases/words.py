"""What the tests of public faults share: a fault is refused in one message, with its rule and a mend, before anything is written."""

from __future__ import annotations

from pathlib import Path

from mends import errors, findings, quick, run_of
from mindrecipe.config.findings import Finding
from mindrecipe.data.spec import DataFacts

LLAMA_7B = ("+model=llama2_7b", "parallel=semi_auto", "amp=O2")
TINY = ("+model=llama2_tiny", "device=cpu")
#: ten short rows, as the smallest examples of the field have
TEN_ROWS = DataFacts(
    train_files=("ten.mindrecord",), heldout_files=(), columns=("input_ids",), train_rows=10, heldout_rows=0, train_tokens=330,
    heldout_tokens=0, unigram_entropy=None, fingerprint="ten",
)  # fmt: skip


def refused(*overrides: str, by: str, says: str = "", mend: str = "") -> Finding:
    """The error of rule ``by`` about ``overrides``; nothing was written."""
    before = sorted(Path.cwd().rglob("*"))
    found = [finding for finding in errors(*overrides, make=quick) if finding.rule == by]
    assert found, f"{by} does not object to {overrides}: {findings(*overrides, make=quick)}"
    assert says in found[0].what, found[0]
    assert mend in (found[0].mend or ""), found[0]
    assert sorted(Path.cwd().rglob("*")) == before
    return found[0]


def warned(*overrides: str, by: str, says: str = "") -> Finding:
    """The warning of rule ``by``; the run is accepted."""
    found = findings(*overrides, make=quick)
    assert not [finding for finding in found if finding.severity == "error"], found
    (finding,) = [finding for finding in found if finding.rule == by and finding.severity == "warning"]
    assert says in finding.what, finding
    return finding


def accepted(*overrides: str) -> None:
    """No error."""
    assert errors(*overrides, make=quick) == []


def not_composed(*overrides: str, says: str, mend: str = "") -> Finding:
    """The fault of composing ``overrides``, through Hydra as a command line goes."""
    found = [finding for finding in errors(*overrides, make=run_of) if says in finding.what]
    assert found, findings(*overrides, make=run_of)
    assert mend in (found[0].mend or ""), found[0]
    return found[0]
