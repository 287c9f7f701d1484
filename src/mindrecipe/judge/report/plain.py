"""The report as Markdown, and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict

from mindrecipe.judge import tables
from mindrecipe.judge.profile import told
from mindrecipe.judge.report.sheet import Sheet
from mindrecipe.measure.numbers import plain


def markdown(content: Sheet) -> str:
    """Figures side by side, comparisons, where the time went."""
    runs = content.runs
    names = dict.fromkeys(name for run in runs for name, _ in run.figures)
    figures = [dict(run.figures) for run in runs]
    table = [[name, *(known.get(name, "") for known in figures)] for name in names]
    parts = ["# mindrecipe report\n", tables.markdown(["", *(run.title for run in runs)], table)]
    shares = [run for run in runs if run.time_shares]
    if shares:
        kinds = list(shares[0].time_shares or ())
        rows = [[run.title, *(f"{100 * (run.time_shares or {})[kind]:.1f} %" for kind in kinds)] for run in shares]
        parts += ["\n## Where the time of a step goes\n", tables.markdown(["run", *kinds], rows)]
    ills = [[run.title, ill.cause, ill.what, ill.evidence, ill.mend] for run in runs for ill in run.diagnoses]
    if ills:
        parts += ["\n## Diagnosis\n", tables.markdown(["run", "cause", "what", "evidence", "try"], ills)]
    for run in runs:
        if run.profile is not None:
            parts += [f"\n## Profile of {run.title}, rank {run.profile.rank}\n", tables.markdown(["", "value"], told.figures(run.profile))]
            parts += ["\n" + tables.markdown(columns, rows) for columns, rows in told.tables(run.profile, top=10) if rows]
    for other, found in zip(runs[1:], content.comparisons, strict=True):
        parts += [
            f"\n## {other.title} against {runs[0].title}: {found.verdict}\n",
            tables.markdown(tables.COMPARED, tables.compared(found)),
        ]
        parts += [f"* {reason}" for reason in [*found.why_not, *found.notes]]
    return "\n".join(parts) + "\n"


def as_json(content: Sheet) -> str:
    """Everything of the sheet."""
    runs = [asdict(run) | {"profile": run.profile and run.profile.as_dict()} for run in content.runs]
    whole = {"runs": runs, "comparisons": [found.as_dict() for found in content.comparisons]}
    return json.dumps(plain(whole), indent=2, ensure_ascii=False, default=str) + "\n"
