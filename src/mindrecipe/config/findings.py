"""What is wrong with a configuration, as values: every stage adds findings, all are shown together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mindrecipe.errors import UserError, UserErrors

#: silenced: an error, warning or advice that the recipe answers with a reason
Severity = Literal["error", "warning", "advice", "silenced"]
_ORDER = {"error": 0, "warning": 1, "advice": 2, "silenced": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault: ``rule`` names the check, ``keys`` what it is about, ``why`` what would happen, ``mend`` overrides to paste.

    ``reason`` is what ``rules.silence`` says to it, where it is silenced.
    """

    rule: str
    severity: Severity
    what: str
    keys: tuple[str, ...] = ()
    why: str | None = None
    where: str | None = None
    mend: str | None = None
    reason: str | None = None

    def as_error(self) -> UserError:
        """The finding as an exception of its own; what composing found (it has no reason why) needs no id."""
        what = f"{self.what}{f' ({self.why})' if self.why else ''}"
        return UserError(what, where=self.where, mend=self.mend, rule=self.rule if self.why else None, severity=self.severity)


def worst_first(findings: list[Finding]) -> list[Finding]:
    """Errors, then warnings, then advice, then what is silenced; in each the order found."""
    return sorted(findings, key=lambda finding: _ORDER[finding.severity])


def raise_errors(findings: list[Finding]) -> None:
    """Raise where there is an error: all findings together, worst first, so that a person sees them once."""
    if not any(finding.severity == "error" for finding in findings):
        return
    faults = [finding.as_error() for finding in worst_first(findings) if finding.severity != "silenced"]
    raise faults[0] if len(faults) == 1 else UserErrors(faults)
