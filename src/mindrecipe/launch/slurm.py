"""launch=slurm: an sbatch script that starts `train` once on every node, and its submission.

Slurm tells its notices (the end of the time, a preemption) to every process of the step by SIGTERM: ranks then save and leave, and
the requeued job resumes.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from mindrecipe.errors import UserError

NOTICE = 120
"""Seconds before its end at which Slurm is asked to tell the job."""

# Each reader takes all it is given: with pipefail, a `head` that leaves early would end the job, as its writer dies of SIGPIPE.
# The script runs on the first node, whose own name /etc/hosts may map to 127.0.1.1 (Debian does): then it is the first of its interfaces.
# scripts/slurm.sbatch has the same lines
_MASTER = """\
NODE=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)
MASTER=$({ getent ahostsv4 "$NODE" || true; hostname -I | tr ' ' '\\n' || true; } |
  awk '$1 ~ /^[0-9.]+$/ && $1 !~ /^127\\./ && !found++ { print $1 }')
if [ -z "$MASTER" ]; then
  echo "the first node, $NODE, has no IPv4 address that other nodes can reach (asked: getent ahostsv4 $NODE, hostname -I)" >&2
  exit 2
fi
export MASTER"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmJob:
    """``command`` is `train` and its words, without the place of the node. ``args`` are further #SBATCH options, as they are.

    ``resume`` is the override by which a start goes on; ``first`` another one in its place, as long as the run directory is not there.
    """

    name: str
    nodes: int
    folder: Path
    logs: Path
    command: tuple[str, ...]
    resume: str
    first: tuple[str, Path] | None = None
    args: tuple[str, ...] = ()

    def script(self) -> str:
        """The sbatch script. UserError where an option can't be written into one."""
        options = [
            f"--job-name={escaped(self.name)}",
            f"--nodes={self.nodes}",
            "--ntasks-per-node=1",
            f"--output={escaped(str(self.logs).replace('%', '%%'))}/slurm-%j.out",
            "--open-mode=append",
            "--requeue",
            f"--signal=TERM@{NOTICE}",
            *self.args,
        ]
        for option in options:
            if len(option.splitlines()) > 1:
                raise UserError(f"a line of an sbatch script can't hold {option!r}", mend="a name without a line break")
        place = '"launch.node_rank=$SLURM_NODEID" "launch.master_addr=$MASTER"' if self.nodes > 1 else ""
        resume = shlex.quote(self.resume) if self.first is None else '"$RESUME"'
        inner = f"exec {shlex.join(self.command)} {resume} {place}".rstrip()
        lines = ["#!/usr/bin/env bash", *(f"#SBATCH {option}" for option in options), "set -euo pipefail"]
        if self.nodes > 1:
            lines.append(_MASTER)
        if self.first is not None:
            named, directory = self.first
            lines += [
                "# The named place is for the job's first start: once its run directory is there, it goes on from its own checkpoints",
                f"RESUME={shlex.quote(named)}",
                f"if [ -e {shlex.quote(str(directory))} ]; then RESUME={shlex.quote(self.resume)}; fi",
                "export RESUME",
            ]
        lines.append(f"cd {shlex.quote(str(self.folder))}")
        lines.append(f"exec srun --kill-on-bad-exit=1 bash -c {shlex.quote(inner)}")
        return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """``text`` as one word of an #SBATCH line, by backslashes: Slurm's quotes are not a shell's, as a backslash counts in them too."""
    return re.sub(r"[^\w@%+=:,./-]", lambda found: f"\\{found[0]}", text)


def submit(script: Path) -> str:
    """Hand the script to sbatch; returns what it says. UserError where there is none, or it refuses."""
    sbatch = shutil.which("sbatch")
    if sbatch is None:
        raise UserError("sbatch is not on PATH: this is no Slurm login node", mend="launch.submit=false, and sbatch it there")
    done = subprocess.run([sbatch, str(script)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise UserError(
            f"sbatch: {done.stderr.strip() or f'exit code {done.returncode}'}", where=str(script), mend="launch.sbatch_args=[...]"
        )
    return done.stdout.strip()
