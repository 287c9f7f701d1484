"""Fit the planner's efficiencies again (plan/calibration.py) on published throughputs, and check them on rows that were held out.

    python benchmarks/plan_fit.py [benchmarks/published.csv] [--folds 5]

A step's time is linear in the constants or their reciprocals, so each row is priced once with all of them at one; coordinate search then
finds those of least mean relative error, drawn lightly to round first guesses. Prints them, and the error on the rows each fold held out.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np

from mindrecipe.plan import calibration, clock
from mindrecipe.plan.job import CannotPrice
from mindrecipe.plan.published import price_row
from mindrecipe.plan.rows import job_of_row

HERE = Path(__file__).with_name("published.csv")
ONE = calibration.Efficiency(matmul=1, attention=1, passes=1, tensor_exposed=1, data_exposed=1, misaligned=1)
FIRST = {"matmul": 0.75, "attention": 0.4, "passes": 2.0, "tensor": 0.7, "data": 0.45, "misaligned": 0.7}
MOST = {"matmul": 0.92, "attention": 0.92, "passes": 6.0, "tensor": 1.2, "data": 1.2, "misaligned": 1.0}
LEAST = {"passes": 0.5}


class Rows:
    """Every throughput that is priced: its parts at full speed, and which constants divide them."""

    def __init__(self, file: Path) -> None:
        self.names: list[tuple[str, ...]] = []
        parts, constants = [], []
        with file.open(newline="", encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream))
        for index, row in enumerate(rows):
            priced = price_row(row, index)
            if not (priced.tokens_per_s and priced.stated_tokens) or priced.claim:
                continue
            try:
                job, convention = job_of_row({key: (value or "").strip() for key, value in row.items()}, [])
                kind = calibration.kind_of(job.device)
            except CannotPrice:
                continue
            items = clock.price(job, ONE).items
            data = sum(items.get(name, 0) for name in ("data parallel", "sharded weights"))
            matmul, core = items["matrix multiplications"], items["attention"]
            moved, optimizer = items["memory traffic"], items["optimizer"]
            inner = sum(items.values()) - items["pipeline bubble"] - data - matmul - core - moved - optimizer
            lay, software = job.layout, convention.software
            bubble = 1 + (lay.pipeline - 1) / lay.interleave / lay.micro_batches
            stated = job.tokens_per_step / lay.devices / priced.stated_tokens
            parts.append((matmul, core, moved, inner, data, bubble, optimizer, stated, float(clock.aligned(job))))
            dtype = job.compute if job.compute in ("float8", "float4") else "half"
            kind = "a100" if kind == "consumer" else kind
            own = software if (software, kind) in calibration._ATTENTION_OF else ""
            core_of = ("attention", kind.removesuffix(" ultra"), own) if job.dims.flash else ("attention", "unfused")
            constants.append(
                [
                    self._index("matmul", kind, dtype),
                    self._index(*core_of),
                    self._index("passes", software),
                    self._index("tensor", software),
                    self._index("data"),
                    self._index("misaligned"),
                ]
            )
        self.parts, self.constants = np.array(parts), np.array(constants)

    def _index(self, *name: str) -> int:
        if name not in self.names:
            self.names.append(name)
        return self.names.index(name)

    def errors(self, logs: np.ndarray) -> np.ndarray:
        """log(predicted / stated) of every row."""
        c = np.exp(logs)[self.constants]
        matmul, core, moved, inner, data, bubble, optimizer, stated, aligned = self.parts.T
        micro = matmul / (c[:, 0] * np.where(aligned == 1, 1, c[:, 5])) + core / c[:, 1] + moved * c[:, 2] + inner * c[:, 3]
        return np.log(stated / (micro * bubble + data * c[:, 4] + optimizer))

    def fit(self, chosen: np.ndarray) -> np.ndarray:
        """The constants, in logarithms, fitted on the ``chosen`` rows."""
        first = np.log([FIRST[name[0]] for name in self.names])
        low = np.log([LEAST.get(name[0], 0.05) for name in self.names])
        high = np.log([MOST[name[0]] for name in self.names])

        def loss(logs: np.ndarray) -> float:
            return float(np.mean(np.minimum(np.abs(self.errors(logs)[chosen]), 0.4)) + 6e-4 * np.sum((logs - first) ** 2))

        best, step = first.copy(), 0.2
        least = loss(best)
        while step > 0.004:
            better = False
            for index in range(len(best)):
                for move in (step, -step):
                    trial = best.copy()
                    trial[index] = np.clip(trial[index] + move, low[index], high[index])
                    found = loss(trial)
                    if found < least - 1e-7:
                        best, least, better = trial, found, True
            if not better:
                step /= 2
        return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, nargs="?", default=HERE)
    parser.add_argument("--folds", type=int, default=5)
    options = parser.parse_args()
    rows = Rows(options.file)
    count = len(rows.parts)
    fitted = rows.fit(np.ones(count, dtype=bool))
    for name, value in sorted(zip(rows.names, np.exp(fitted), strict=True)):
        print(f"{' '.join(filter(None, name)):<32} {value:.2f}")
    print(f"{count} rows, {len(rows.names)} constants, median error {100 * np.median(np.abs(np.expm1(rows.errors(fitted)))):.1f} %")
    fold = np.random.RandomState(0).randint(0, options.folds, count)
    held = np.concatenate([rows.errors(rows.fit(fold != each))[fold == each] for each in range(options.folds)])
    middle, most = np.quantile(np.abs(np.expm1(held)), [0.5, 0.8])
    print(f"held out, {options.folds} folds: median error {100 * middle:.1f} %, four in five within {100 * most:.1f} %")


if __name__ == "__main__":
    main()
