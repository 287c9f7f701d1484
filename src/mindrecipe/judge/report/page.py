"""The report as one HTML page: no script, no network, nothing beside it; readable on a phone, in the dark, and printed."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from html import escape

import yaml

from mindrecipe.judge import tables
from mindrecipe.judge.compare import Comparison
from mindrecipe.judge.profile import Profile, told
from mindrecipe.judge.report import svg
from mindrecipe.judge.report.sheet import Curve, RunSheet, Sheet

_STYLE = """
:root{--ink:#1c1f23;--soft:#5c6570;--back:#fff;--card:#f6f7f9;--grid:#dfe3e8;--s0:#2563eb;--s1:#d9480f;--s2:#2b8a3e;--s3:#862e9c;
--s4:#0b7285;--s5:#a61e4d;--good:#2b8a3e;--bad:#c92a2a;--warn:#9a6700}
@media(prefers-color-scheme:dark){:root{--ink:#e6e8eb;--soft:#9aa4b0;--back:#14171a;--card:#1e2226;--grid:#343a40;--s0:#74a9ff;
--s1:#ff9f6b;--s2:#69db7c;--s3:#da8bf0;--s4:#66d9e8;--s5:#faa2c1;--good:#69db7c;--bad:#ff8787;--warn:#ffd43b}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1180px;padding:1rem;background:var(--back);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
h1{font-size:1.5rem;margin:.2rem 0}h2{font-size:1.2rem;margin:2rem 0 .5rem}h3{font-size:1rem;margin:0 0 .3rem}
p,small{color:var(--soft);overflow-wrap:anywhere}
.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,330px),1fr));gap:1rem}
.card{background:var(--card);border-radius:8px;padding:.8rem;min-width:0}
.card td+td{white-space:nowrap}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.2rem .8rem .2rem 0;vertical-align:top}
td[data-short]{white-space:nowrap}tr+tr>td{border-top:1px solid var(--grid)}
dl{columns:19rem;column-gap:2rem;margin:0}dl div{display:grid;grid-template-columns:11rem 1fr;gap:.6rem;break-inside:avoid}
dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
svg{width:100%;height:auto;display:block}svg text{fill:var(--soft);font:11px system-ui,sans-serif}
svg .grid{stroke:var(--grid);stroke-width:1}polyline{fill:none;stroke-width:1.6;stroke-linejoin:round}
.heat{fill:var(--s1);shape-rendering:crispEdges}
pre{overflow-x:auto;background:var(--card);padding:.8rem;border-radius:8px;font-size:13px}summary{cursor:pointer;padding:.3rem 0}
.key{display:inline-block;margin-right:1rem}.key i{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.35em}
@media(max-width:640px){body>.wide table,body>.wide tbody,body>.wide tr{display:block}body>.wide tr:first-child{display:none}
body>.wide tr{padding:.5rem 0;border-top:1px solid var(--grid)}body>.wide td:empty{display:none}
body>.wide td{display:grid;grid-template-columns:6.5rem 1fr;gap:.6rem;padding:.1rem 0;border:0;overflow-wrap:anywhere}
body>.wide td::before{content:attr(data-name);color:var(--soft)}}
.same,.completed{color:var(--good)}.worse,.failed,.diverged{color:var(--bad)}.better,.unclear,.not,.interrupted{color:var(--warn)}
""" + "".join(f"polyline.s{n}{{stroke:var(--s{n})}}.f{n}{{fill:var(--s{n});background:var(--s{n})}}" for n in range(svg.COLOURS))

_SHORT = 22


def page(content: Sheet, title: str = "mindrecipe report") -> str:
    """The whole page."""
    runs = content.runs
    body = [f"<h1>{escape(title)}</h1>", _legend([run.title for run in runs]), _overview(runs)]
    body += [_comparison(runs[0], other, found) for other, found in zip(runs[1:], content.comparisons, strict=True)]
    body.append("<h2>Curves</h2>")
    names = dict.fromkeys(name for run in runs for name in run.curves)
    cards = [_curve(name, runs) for name in names]
    body.append(f'<div class="grid">{"".join(cards)}</div>')
    body += [_details(run) for run in runs]
    return _document(title, "".join(body))


def _curve(name: str, runs: Sequence[RunSheet]) -> str:
    """One line a run; over the loss of a single run its moving mean. With several runs there are lines enough."""
    if name != "loss" or len(runs) > 1:
        return _card(name, svg.curves({run.title: run.curves.get(name, []) for run in runs}))
    lines: dict[str, Curve] = {"each step": runs[0].curves[name], "mean of 20": runs[0].loss_mean}
    return _card(name, svg.curves(lines) + _legend(list(lines)))


def table_page(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], drawings: Mapping[str, str], notes: Sequence[str]) -> str:
    """A page of one table, with drawings (title -> SVG) and notes under it."""
    cards = "".join(_card(name, drawing) for name, drawing in drawings.items())
    below = "".join(f"<p>{escape(note)}</p>" for note in notes)
    return _document(title, f'<h1>{escape(title)}</h1>{_table(columns, rows, "verdict")}{below}<div class="grid">{cards}</div>')


def _document(title: str, body: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>{body}</body></html>\n"
    )


def _legend(names: Sequence[str]) -> str:
    keys = [f'<span class="key"><i class="f{number % svg.COLOURS}"></i>{escape(name)}</span>' for number, name in enumerate(names)]
    return f"<p>{''.join(keys)}</p>"


def _card(title: str, drawing: str) -> str:
    return f'<figure class="card" style="margin:0"><h3>{escape(title)}</h3>{drawing}</figure>' if drawing else ""


def _overview(runs: Sequence[RunSheet]) -> str:
    cards = []
    for run in runs:
        rows = "".join(
            f"<div><dt>{escape(name)}</dt><dd{_class(value) if name == 'state' else ''}>{escape(value)}</dd></div>"
            for name, value in run.figures
        )
        cards.append(f'<section class="card"><h3>{escape(run.title)}</h3><dl>{rows}</dl><small>{escape(run.path)}</small></section>')
    return f'<div class="grid">{"".join(cards)}</div>'


def _comparison(first: RunSheet, other: RunSheet, found: Comparison) -> str:
    table = _table(tables.COMPARED, tables.compared(found), "verdict")
    reasons = "".join(f"<p>{escape(reason)}</p>" for reason in [*found.why_not, *found.notes])
    head = f"{escape(other.title)} against {escape(first.title)}: <span{_class(found.verdict)}>{found.verdict}</span>"
    return f"<h2>{head}</h2>{table}{reasons}"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], verdict: str) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = []
    for row in rows:
        cells = []
        for name, cell in zip(columns, row, strict=True):
            short = " data-short" if len(cell) < _SHORT else ""  # a figure stays with its unit
            cells.append(f'<td data-name="{escape(name)}"{short}{_class(cell) if name == verdict else ""}>{escape(cell)}</td>')
        body.append("".join(cells))
    return f'<div class="wide"><table><tr>{head}</tr>{"".join(f"<tr>{row}</tr>" for row in body)}</table></div>'


def _details(run: RunSheet) -> str:
    cards = [
        _card("where the time of a step goes", _shares(run.time_shares) if run.time_shares else ""),
        _card("each rank by itself, ms a step (dark: this rank holds up the others)", _ranks(run)),
        _card("gradient norm by layer", _many(run.layers)),
        *(_card(name, svg.curves({name: line}, unit_x="s")) for name, line in run.usage.items()),
    ]
    config = yaml.safe_dump(run.config, sort_keys=False, allow_unicode=True)
    lock = json.dumps(run.lock, indent=2, ensure_ascii=False)
    files = [("configuration", config), ("lock", lock), ("summary", json.dumps(run.summary, indent=2))]
    folded = "".join(f"<details><summary>{name}</summary><pre>{escape(text)}</pre></details>" for name, text in files)
    return f'<h2>{escape(run.title)}</h2>{_diagnoses(run)}<div class="grid">{"".join(cards)}</div>{_profile(run.profile)}{folded}'


def _diagnoses(run: RunSheet) -> str:
    if not run.diagnoses:
        return "<p>Diagnosis: nothing holds it back.</p>"
    columns = ("cause", "what", "evidence", "threshold", "try")
    rows = [[found.cause, found.what, found.evidence, found.threshold, found.mend] for found in run.diagnoses]
    return _table(columns, rows, "")


def _profile(profile: Profile | None) -> str:
    """What the profiler saw: figures, operators, scopes, memory, links."""
    if profile is None:
        return ""
    figures = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in told.figures(profile))
    memory = profile.memory
    curve = [(time, used / 2**20) for time, used in memory.curve] if memory else []
    cards = [
        f'<section class="card"><h3>the profile of rank {profile.rank}</h3><dl>{figures}</dl></section>',
        _card("operators: share of their time by where they stand", _shares(told.largest(profile.scopes)) if profile.scopes else ""),
        _card("memory while it was profiled, MiB", svg.curves({"allocated": curve}, unit_x="s")),
        _card(
            "links: what went from the rank of a row to that of a column",
            svg.heat_map(told.matrix(profile), unit="MB", columns=list(told.matrix(profile))),
        ),
    ]
    tables = (_table(columns, rows, "") for columns, rows in told.tables(profile, top=15) if rows)
    cards += [f'<section class="card">{table}</section>' for table in tables]
    return f'<h2>profile</h2><div class="grid">{"".join(cards)}</div>'


def _shares(shares: Mapping[str, float]) -> str:
    keys = [
        f'<span class="key"><i class="f{number % svg.COLOURS}"></i>{escape(name)} {100 * share:.1f} %</span>'
        for number, (name, share) in enumerate(shares.items())
    ]
    return f"{svg.stacked_bar(shares)}<p>{''.join(keys)}</p>"


def _ranks(run: RunSheet) -> str:
    return svg.heat_map({f"rank {rank}": row for rank, row in run.ranks.items()}, unit="ms")


def _many(layers: Mapping[str, Curve]) -> str:
    """More lines than colours would not be told apart: a heat map, on a logarithmic scale."""
    if not layers:
        return ""
    return svg.heat_map(
        {name.removeprefix("layers."): [math.log10(max(value, 1e-12)) for _, value in line] for name, line in layers.items()}, unit="log10"
    )


def _class(word: str) -> str:
    return f' class="{escape(word.partition(" ")[0])}"' if word else ""
