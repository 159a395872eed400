"""Flaws of KernelBench tasks that others published or that can be derived from the task by hand.

Facts only: numbers of tasks and what is wrong with them. Sources:

- "derived": worked out from sizes, distributions and operators of the public task.
- "issue 165": KernelBench issue #165 (outputs near zero at the tolerance for bf16).
- "METR": tasks removed from METR's public fork, in the numbering of KernelBench v0.
- "robust-kbench": its published filters (range, std, axis, input influence), in v0 numbering; its
  list of redundant level-2 tasks.

Numbers of v0 are used only where the task still has its name.
"""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Flaw:
    """A kind of flaw, the tasks that have it, and the findings that would say so."""

    kind: str
    source: str
    tasks: dict[int, tuple[int, ...]]
    """Level -> numbers of tasks."""
    findings: frozenset[str]
    """Any of these ids, at any tolerance, is the same statement."""


_CONSTANT = frozenset({"constant_output", "zero_passes", "constant_passes", "saturated"})
_CHEAP = frozenset({*_CONSTANT, "identity", "affine", "mean_passes"})
_UNUSED = frozenset({*_CHEAP, "ignores_input", "ignores_operator"})
_REDUNDANT = frozenset(
    {
        "redundant_operator", "repeated_operator", "foldable_operators", "size_one_reduction",
        "idle_operator", "cancelled_operator", "removable_heavy_operator", "constant_output",
    }
)  # fmt: skip

FLAWS: tuple[Flaw, ...] = (
    Flaw("constant output", "derived", {2: (9, 23, 80, 83)}, _CONSTANT),
    Flaw(
        "zeros pass",
        "issue 165, derived",
        {1: (23, 37, 39, 53), 2: (38, 66, 84, 99)},
        frozenset({"constant_output", "zero_passes"}),
    ),
    Flaw("a constant passes", "derived", {1: (49, 95, 100), 2: (22, 45, 56)}, _CONSTANT),
    Flaw("decays to zero", "derived", {1: (90,)}, frozenset({"saturated"})),
    Flaw("identity", "derived", {1: (19, 20, 31, 32), 2: (51,)}, frozenset({"identity", "affine"})),
    Flaw(
        "affine",
        "derived",
        {1: (27, 28, 33, 34, 35, 37, 38, 39, 40)},
        frozenset({"affine", "zero_passes"}),
    ),
    Flaw("mean of V", "derived", {1: (97,)}, frozenset({"mean_passes", "ignores_input"})),
    Flaw(
        "sub-sampled",
        "derived",
        {1: (48, 94, 95, 96, 98, 99, 100)},
        frozenset({"subsampled", "constant_passes", "zero_passes", "ignores_operator"}),
    ),
    Flaw(
        "integers compared as floats",
        "derived",
        {1: (51, 52)},
        frozenset({"integer_slack", "integer_ties"}),
    ),
    Flaw(
        "algebra removes the heavy operator",
        "derived",
        {2: (14, 18, 42, 44, 51)},
        frozenset({"removable_heavy_operator"}),
    ),
    Flaw(
        "bias cancels in a norm",
        "derived",
        {2: (17, 28)},
        frozenset({"cancelled_operator", "ignores_parameter"}),
    ),
    Flaw(
        "redundant or idle operators",
        "derived",
        {
            2: (2, 4, 6, 7, 18, 20, 22, 25, 29, 33, 39, 40, 41, 44, 57, 58, 62, 64, 68, 69, 72,
                78, 81, 87, 95),
        },
        _REDUNDANT,
    ),
    Flaw(
        "redundant",
        "robust-kbench",
        {
            2: (2, 4, 7, 18, 20, 22, 25, 27, 29, 39, 40, 42, 44, 49, 53, 54, 57, 62, 64, 69, 72,
                74, 76, 79, 81, 87, 93, 94, 95),
        },
        _REDUNDANT,
    ),
    Flaw(
        "random or stateful",
        "derived",
        {2: (66,), 3: (33, 35)},
        frozenset({"random_reference", "stateful_reference", "hidden_state"}),
    ),
    Flaw(
        "wasteful reference",
        "derived",
        {1: (12, 13, 14, 15, 36, 88, 91, 92), 3: (36, 37, 43, 50)},
        frozenset({"discarded_result", "unused_result", "foldable_operators"}),
    ),
    Flaw(
        "removed",
        "METR",
        {
            1: (8, 23, 37, 39, 77, 90, 95),
            2: (9, 13, 23, 36, 38, 44, 49, 77, 80, 83, 84, 89, 91, 93, 96),
            3: (3, 5, 7, 11, 12, 18, 28, 32, 34, 35, 45, 46, 47),
        },
        _UNUSED,
    ),
    Flaw(
        "input without influence",
        "robust-kbench",
        {
            1: (23, 37, 38, 39, 94, 96, 98),
            2: (9, 13, 23, 36, 44, 48, 49, 66, 80, 84, 88, 89, 91, 96),
        },
        _UNUSED,
    ),
)  # fmt: skip


def flaws_of(level: int, number: int) -> Iterator[Flaw]:
    """Published remarks on a task."""
    return (flaw for flaw in FLAWS if number in flaw.tasks.get(level, ()))


WHY_NOT: dict[tuple[int, int] | str, str] = {
    "wasteful reference": "how well a reference is written is not judged, only what it leaves open",
    (2, 28): "the norm runs over the features that the bias tells apart, so it does not cancel",
    (3, 35): "the random states have no effect that outlives the sequence; the report notes them",
    (3, 36): "the call that is discarded does not reach the exported program",
    (3, 37): "the call that is discarded does not reach the exported program",
}
"""Why the linter does not report a flaw of a list, by task or by kind of flaw."""
