"""The faults a user can cause, told in one message: what, where it was written, the mend.

Everything else that is raised is a fault of ours and keeps its traceback.
"""

from __future__ import annotations

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


class UserError(Exception):
    """A fault in what the user wrote or in what the machine lacks. Ends the program with exit code 2 and no traceback.

    ``what`` says what is wrong with the value that was found, ``where`` names the file:line or the command line override,
    ``mend`` is what to type instead. ``rule`` is the id of the rule that found it; ``severity`` is "error" but for what is told
    beside errors.
    """

    exit_code = EXIT_USAGE

    def __init__(
        self, what: str, *, where: str | None = None, mend: str | None = None, rule: str | None = None, severity: str = "error"
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.mend = mend
        self.rule = rule
        self.severity = severity

    def __str__(self) -> str:
        lines = [self.what]
        if self.where:
            lines.append(f"  at:   {self.where}")
        if self.mend:
            lines.append(f"  mend: {self.mend}")
        return "\n".join(lines)


class UserErrors(UserError):
    """Several faults found together; all are shown, worst first."""

    def __init__(self, faults: list[UserError]) -> None:
        super().__init__("\n".join(str(fault) for fault in faults))
        self.faults = faults

    def __str__(self) -> str:
        return f"{len(self.faults)} faults\n" + "\n".join(f"{number}. {fault}" for number, fault in enumerate(self.faults, 1))
