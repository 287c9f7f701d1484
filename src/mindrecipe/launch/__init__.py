"""Starting the ranks of a run, watching over them, and leaving nothing behind. Never imports mindspore."""

from mindrecipe.launch.commands import command_lines
from mindrecipe.launch.launcher import launch
from mindrecipe.launch.plan import LaunchPlan
from mindrecipe.launch.preconditions import preflight
from mindrecipe.launch.restart import RestartPolicy
from mindrecipe.measure.outcome import Outcome, RankError

__all__ = ["LaunchPlan", "Outcome", "RankError", "RestartPolicy", "command_lines", "launch", "preflight"]
