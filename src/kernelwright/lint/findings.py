"""The words of the task linter: kinds of findings, and one finding.

A finding is about the task, never about a candidate. Where a cheap answer passes, the finding names
the tolerances it passes under: "strict" (the judge's own rule), "1e-4" and "1e-2" (KernelBench's
|reference - y| <= tol * (1 + |y|), for fp32 and for 16-bit types).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from kernelwright.core.record import Record

TOLERANCES: dict[str, float | None] = {"strict": None, "1e-4": 1e-4, "1e-2": 1e-2}
"""Name -> bound, tightest first; what passes one passes those after it."""


class Severity(StrEnum):
    DEGENERATE = "degenerate"
    """The task can be answered without doing the work, under the tolerances that are named."""
    UNSOUND = "unsound"
    """A faithful answer can be refused."""
    WEAK = "weak"
    """Legal, but it says less about a kernel than it seems to."""


@dataclass(frozen=True, slots=True)
class FindingKind:
    severity: Severity
    measure: str
    """The meaning of the figure; "" where there is none."""
    meaning: str
    remedy: str


_GAP = "gap: largest |reference - y| / (1 + |y|) of the cheap answer y"
_SPREAD = "Draw inputs of larger spread, or of both signs."
_USE = "Draw inputs for which it matters, or take it out."

KINDS: dict[str, FindingKind] = {
    "constant_output": FindingKind(
        Severity.DEGENERATE,
        _GAP,
        "The output is one and the same number, whatever the inputs are.",
        "Take out the operator that loses the values (a reduction to nothing, a clamp).",
    ),
    "zero_passes": FindingKind(
        Severity.DEGENERATE,
        _GAP,
        "The output is so close to zero that zeros pass.",
        "Scale the output up (a softmax over many elements), or judge on its own scale.",
    ),
    "constant_passes": FindingKind(
        Severity.DEGENERATE, _GAP, "One number in place of every element passes.", _SPREAD
    ),
    "identity": FindingKind(
        Severity.DEGENERATE, _GAP, "An input, returned as it came, passes.", _SPREAD
    ),
    "affine": FindingKind(
        Severity.DEGENERATE,
        _GAP,
        "A fixed a * x + b of one input passes, fitted on one draw and tested on others.",
        _SPREAD + " Weights of ones and biases of zeros make norms affine.",
    ),
    "mean_passes": FindingKind(
        Severity.DEGENERATE,
        _GAP,
        "The plain mean of an input along one axis passes.",
        _SPREAD + " A softmax of nearly equal scores is a mean.",
    ),
    "saturated": FindingKind(
        Severity.DEGENERATE,
        "share of elements",
        "Nearly every element of the output is the same number within tolerance.",
        "Draw inputs that stay off the limits of a clamp, a decay or a threshold.",
    ),
    "ignores_input": FindingKind(
        Severity.DEGENERATE,
        _GAP,
        "Drawing one input afresh does not change the output.",
        _USE,
    ),
    "ignores_parameter": FindingKind(
        Severity.WEAK,
        _GAP,
        "Drawing one parameter afresh does not change the output.",
        _USE,
    ),
    "constant_input": FindingKind(
        Severity.WEAK,
        "the number",
        "An input holds the same number everywhere on every draw: kernels may leave it out.",
        "Draw it at random.",
    ),
    "ignores_operator": FindingKind(
        Severity.DEGENERATE,
        _GAP,
        "The output stays when an operator's result is swapped for that of another draw.",
        _USE,
    ),
    "idle_operator": FindingKind(
        Severity.WEAK,
        _GAP,
        "The output stays when an operator is left out and its input passed on.",
        _USE,
    ),
    "subsampled": FindingKind(
        Severity.WEAK,
        "smallest share of the elements that suffices",
        "A reduction over a part of its elements passes; degenerate where a sixteenth is enough.",
        "Draw inputs with rare large values, so that every element counts.",
    ),
    "random_reference": FindingKind(
        Severity.UNSOUND,
        "gap between two runs",
        "The reference answers otherwise under another random state.",
        "Set dropout to eval mode, or pass random values as inputs.",
    ),
    "stateful_reference": FindingKind(
        Severity.UNSOUND,
        "gap between two calls",
        "A second call of the same module on the same inputs answers otherwise.",
        "Pass the state as an input and return the new one.",
    ),
    "hidden_state": FindingKind(
        Severity.UNSOUND,
        "",
        "A call changes a tensor attribute that is not a buffer.",
        "Register it as a buffer, or keep it local to forward.",
    ),
    "not_finite": FindingKind(
        Severity.UNSOUND,
        "share of elements",
        "The output holds NaN or infinities.",
        "Keep inputs within the operators' domains and results within the dtype's range.",
    ),
    "integer_ties": FindingKind(
        Severity.UNSOUND,
        "share of rows",
        "An index of an extreme is not decided by the values: several elements are equal.",
        "Draw inputs without ties, in the dtype that is tested.",
    ),
    "integer_slack": FindingKind(
        Severity.WEAK,
        "how far off an index may be under 1e-2",
        "Indices are integers, and a tolerance for floats lets wrong ones pass.",
        "Compare integers exactly.",
    ),
    "removable_heavy_operator": FindingKind(
        Severity.WEAK,
        "share of the task's FLOPs",
        "Algebra makes the heavy operator a much cheaper one: its result is only summed.",
        "Put an operator between them that is not linear.",
    ),
    "discarded_result": FindingKind(
        Severity.WEAK,
        "share of the result that is used",
        "Part of a heavy operator's result is cut off or masked at once.",
        "Compute only what is used, so that a faster kernel is not merely a smaller one.",
    ),
    "unused_result": FindingKind(
        Severity.WEAK, "", "Nothing uses what an operator computes.", "Take the operator out."
    ),
    "cancelled_operator": FindingKind(
        Severity.WEAK,
        "",
        "A shift or a scale is taken back exactly by the normalization that follows.",
        "Take it out, or put it after the normalization.",
    ),
    "size_one_reduction": FindingKind(
        Severity.WEAK,
        "",
        "A reduction over dimensions of size one does nothing.",
        "Reduce a dimension of several elements.",
    ),
    "redundant_operator": FindingKind(
        Severity.WEAK,
        "",
        "A clamp, ReLU or the like whose input is within its limits already.",
        "Take it out.",
    ),
    "repeated_operator": FindingKind(
        Severity.WEAK,
        "",
        "The same operator twice in a row, scaling in between at most.",
        "Use two different operators.",
    ),
    "foldable_operators": FindingKind(
        Severity.WEAK,
        "",
        "Operators with numbers fold into one (x / 2 * 3, x + x).",
        "Write the one operator they are.",
    ),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing that is wrong with a task."""

    id: str
    """A key of `KINDS`."""
    message: str
    severity: Severity
    measure: float | None = None
    """The figure that `KINDS[id].measure` names."""
    tolerances: tuple[str, ...] = ()
    """Tolerances it holds under, tightest first; empty where it holds whatever the tolerance."""
    output: int | None = None
    """Position among the task's outputs."""
    input: int | None = None
    """Position among the task's tensor inputs, or of a parameter after them."""
    operator: int | None = None
    """Position among the program's calls."""

    @property
    def remedy(self) -> str:
        return KINDS[self.id].remedy

    def holds_under(self, tolerance: str) -> bool:
        """Whether the finding is true of a judge with this tolerance ("strict", "1e-4" or
        "1e-2")."""
        return not self.tolerances or tolerance in self.tolerances

    def to_json(self) -> Record:
        return {
            "id": self.id,
            "severity": self.severity.value,
            "measure": self.measure,
            "tolerances": list(self.tolerances),
            "output": self.output,
            "input": self.input,
            "operator": self.operator,
            "message": self.message,
            "remedy": self.remedy,
        }


def found(id: str, message: str, *, severity: Severity | None = None, **where: object) -> Finding:
    """Returns a finding with the severity of its kind, unless another is given."""
    return Finding(id=id, message=message, severity=severity or KINDS[id].severity, **where)  # type: ignore[arg-type]


def beyond(tolerances: Iterable[str], covered: Iterable[str]) -> tuple[str, ...]:
    """Returns the tolerances that one finding adds to others; none if theirs cover its tightest."""
    names = tuple(tolerances)
    return names if names and names[0] not in set(covered) else ()


@dataclass(frozen=True, kw_only=True, slots=True)
class LintReport:
    """Everything the linter found about one task."""

    task: str
    device: str
    findings: tuple[Finding, ...] = ()
    not_checked: tuple[str, ...] = ()
    """Checks that were left out, each with the reason."""
    notes: tuple[str, ...] = ()
    scaled: bool = False
    """Values were looked at in smaller sizes than the task's; findings that rest on values may
    differ at its own (a softmax over more elements is smaller)."""
    num_draws: int = 0
    seconds: float = field(default=0.0, compare=False)

    def reasons(self, tolerance: str) -> tuple[Finding, ...]:
        """Returns the findings that make the task unfit to judge by at this tolerance: all but weak
        ones."""
        return tuple(
            finding
            for finding in self.findings
            if finding.severity is not Severity.WEAK and finding.holds_under(tolerance)
        )

    def to_json(self) -> Record:
        return {
            "task": self.task,
            "device": self.device,
            "findings": [finding.to_json() for finding in self.findings],
            "not_checked": list(self.not_checked),
            "notes": list(self.notes),
            "scaled": self.scaled,
            "num_draws": self.num_draws,
            "seconds": round(self.seconds, 3),
        }
