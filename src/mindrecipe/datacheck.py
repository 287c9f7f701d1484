"""The data set of a run, checked row by row: what its rows have to be, and what is found as findings like those of the rules."""

from __future__ import annotations

import os

from mindrecipe.config.findings import Finding, Severity
from mindrecipe.data.rowcheck import DataReport, Find, check_rows, shards
from mindrecipe.data.rowscan import Wanted
from mindrecipe.data.spec import COLUMNS
from mindrecipe.derive import Derived

#: the pass before a launch: enough to see what is wrong everywhere, and not to be noticed
QUICK_ROWS, QUICK_SECONDS = 4096, 1.5
#: the share of rows from which it tells of what is no error: real text has a copy here and there
QUICK_SHARE = 1e-3
_MENDS = {
    "ids": "model.vocab_size=<more than the largest id>",
    "labels": "model.vocab_size=<more than the largest label>, or mask them",
    "leak": "'dataset.heldout_files=[<files that are not trained on>]'",
}


def check_data(
    derived: Derived, *, most_rows: int | None = None, most_seconds: float | None = None, processes: int | None = None
) -> DataReport:
    """Read the rows of ``derived.dataset``, which is known. UserError for files that can't be read."""
    data, model, facts = derived.config.dataset, derived.config.model, derived.dataset
    if facts is None:
        raise ValueError("check_data needs a run whose data set is known")
    layout = derived.family.layout
    wanted = Wanted(
        columns=tuple(facts.columns)[: len(COLUMNS[layout])],
        seq_length=model.seq_length,
        shifted=layout == "shifted",
        vocab_size=model.vocab_size,
        pad_token_id=model.pad_token_id,
        keep=1,
    )
    alone = data.num_shards if data.num_shards is not None and derived.device_num == 1 else None
    ranks = alone or derived.batch.num_shards
    shared = shards(facts.train_rows, ranks, derived.batch.per_loader, data.drop_remainder, read=1 if alone else None)
    return check_rows(
        facts.train_files,
        facts.heldout_files,
        wanted,
        shared,
        most_rows=most_rows,
        most_seconds=most_seconds,
        processes=processes if processes is not None else min(8, os.cpu_count() or 1),
    )


def quick_findings(derived: Derived) -> list[Finding]:
    """What a sample of rows, read in this process for at most QUICK_SECONDS, has wrong."""
    report = check_data(derived, most_rows=QUICK_ROWS, most_seconds=QUICK_SECONDS, processes=1)
    often = [find for find in report.finds if find.severity == "error" or find.count >= QUICK_SHARE * report.rows_read]
    return [_finding(find, report) for find in often]


def findings(report: DataReport) -> list[Finding]:
    """The finds of a report as findings, worst first."""
    return [_finding(find, report) for find in report.finds]


def _finding(find: Find, report: DataReport) -> Finding:
    severity: Severity = "error" if find.severity == "error" else "warning"
    path, row, what = find.places[0]
    of = f"{find.count} of {report.rows_read} rows read" if not report.complete else f"{find.count} of {report.rows} rows"
    return Finding(
        rule=f"data.{find.kind}",
        severity=severity,
        what=f"{what} ({of}, {find.split})",
        keys=("dataset.files",),
        why=find.why,
        where=f"{path}, row {row}",
        mend=_MENDS.get(find.kind, "write the rows again; `mindrecipe data check --all` lists more of them"),
    )
