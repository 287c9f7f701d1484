"""The `train` command: Hydra's command line (`--cfg`, `--info`, `--multirun`, completion), our run.

A plain run composes once and launches. Everything that is Hydra's own is handed to Hydra, with the overrides made ready for
it, and its faults told in our words.
"""

from __future__ import annotations

import argparse
import logging
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from mindrecipe.cli.console import STRICT, Stopped, run_guarded
from mindrecipe.cli.output import outlive_readers
from mindrecipe.errors import EXIT_OK, UserError
from mindrecipe.runfiles import SWEEP_JOB


def main() -> NoReturn:
    """Entry point of `train`."""
    run_guarded(lambda: train(sys.argv[1:]))


def train(argv: list[str]) -> int:
    """Run `train` with ``argv``; returns the exit code."""
    if "--help" in argv or "-h" in argv:
        from mindrecipe.cli.train_help import print_help

        print_help()
        return EXIT_OK
    if "--version" in argv:
        from importlib.metadata import version

        print(f"mindrecipe {version('mindrecipe')}")
        return EXIT_OK
    argv = [STRICT if word == "--strict" else word for word in argv]
    from hydra._internal.utils import get_args_parser

    # intermixed: `--cfg job` may stand before, between or after overrides
    args, unknown = get_args_parser().parse_known_intermixed_args(argv)
    if unknown:
        from mindrecipe.config.findings import raise_errors
        from mindrecipe.config.overrides import normalize

        raise_errors(list(normalize(unknown).findings))
    _use_config_dir(args.config_dir)
    hydras = (args.cfg, args.info, args.multirun, args.shell_completion, args.hydra_help, args.experimental_rerun)
    if any(hydras):
        return _hydra(args, argv)
    if args.config_name or args.config_path:
        raise UserError(
            "train has one primary config", mend="options of your own go to ./conf/<group>/, whole runs to ./recipes/, or --config-dir"
        )
    return run_once(args.overrides)


def run_once(overrides: list[str]) -> int:
    """Compose, check, prepare the data, freeze and launch one run."""
    from mindrecipe.run import Run

    run = Run.from_overrides(overrides)
    if not run.config.launch.dry_run:
        outlive_readers()
    return run.launch().exit_code


def _use_config_dir(folder: str | None) -> None:
    from mindrecipe.config.search_path import use_config_dir

    if folder is None:
        return
    path = Path(folder).expanduser().absolute()
    if not path.is_dir():
        raise UserError(f"--config-dir {folder} is not a folder", mend="a folder with groups such as model/, and recipes/")
    use_config_dir(path)


def _hydra(args: argparse.Namespace, argv: list[str]) -> int:
    """Hand over to hydra.main, which reads sys.argv: without --config-dir (it is on our search path), overrides normalized."""
    import hydra

    from mindrecipe.config import compose
    from mindrecipe.config.findings import raise_errors
    from mindrecipe.config.overrides import normalize
    from mindrecipe.paths import shipped

    overrides = list(args.overrides)
    if not args.shell_completion:
        normalized = normalize(overrides, sweep=args.multirun)
        raise_errors(list(normalized.findings))
        overrides = list(normalized.overrides)
    if args.multirun:
        outlive_readers()
    flags = _without_config_dir([word for word in argv if word not in args.overrides])
    compose.prepare()
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises instead of printing: we say it in our words
    logging.raiseExceptions = False  # Hydra prints --info through logging: a reader who leaves the pipe is no fault
    sys.argv[1:] = [*overrides, *flags]
    task = hydra.main(config_path=str(shipped("conf")), config_name=compose.PRIMARY, version_base="1.3")(_job)
    try:
        task()
    except _JobFailed as failed:
        return failed.exit_code
    except compose.HYDRA_FAULTS as fault:
        raise_errors([compose.explain(fault, overrides)])
    return EXIT_OK


def _job(_: Any) -> float:
    """One job of a sweep: a `train` of its own overrides in a process of its own, which tells its end by its exit code.

    What it returns is what sweepers such as Optuna minimise.
    """
    with tempfile.TemporaryDirectory(prefix="mindrecipe-sweep-") as folder:
        told = Path(folder) / "run"
        _train_in_process({SWEEP_JOB: str(told)})
        return objective(Path(told.read_text(encoding="utf-8"))) if told.is_file() else math.nan


def objective(run: Path) -> float:
    """The held-out loss of the run directory, where it was evaluated, else its last loss; NaN where it has none (launch.dry_run)."""
    from mindrecipe.judge.recorded import Recorded

    summary = Recorded(run).summary
    losses = (summary.get(name) for name in ("heldout_loss", "final_loss"))
    return next((float(loss) for loss in losses if loss is not None), math.nan)


def _train_in_process(more: Mapping[str, str]) -> None:
    """`train` of the sweep's current overrides, with ``more`` in its environment."""
    from hydra.core.hydra_config import HydraConfig

    from mindrecipe.config.search_path import config_dir
    from mindrecipe.launch.processes import die_with

    folder = config_dir()
    flags = ["--config-dir", str(folder)] if folder is not None else []
    words = [*HydraConfig.get().overrides.task, *flags]
    safe = {**os.environ, **more, "PYTHONSAFEPATH": "1"}  # `python -c` would look for libraries in the current folder first
    process = subprocess.Popen(
        [sys.executable, "-c", "from mindrecipe.cli.train import main; main()", *words],
        env=safe,
        preexec_fn=die_with(os.getpid()),  # noqa: PLW1509 - one system call; kill -9 of the sweep ends its job too
    )
    try:
        code = process.wait()
    except KeyboardInterrupt:
        process.wait()  # Ctrl-C reached the job too: it stops its ranks and says how to resume
        raise
    except Stopped:
        process.terminate()  # SIGTERM came to us alone
        process.wait()
        raise
    if code != EXIT_OK:
        raise _JobFailed(code)


class _JobFailed(Exception):
    """A job of a sweep ended with ``exit_code``."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(f"exit code {exit_code}")
        self.exit_code = exit_code


def _without_config_dir(flags: list[str]) -> list[str]:
    kept: list[str] = []
    skip = False
    for word in flags:
        if skip:
            skip = False
        elif word in ("--config-dir", "-cd"):
            skip = True
        elif not word.startswith("--config-dir="):
            kept.append(word)
    return kept
