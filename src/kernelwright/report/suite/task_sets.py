"""The sets of KernelBench tasks that figures are over: all, and two sets without flawed tasks."""

from collections.abc import Collection, Sequence

from kernelwright.core.record import Record
from kernelwright.report.known_flaws import flaws_of
from kernelwright.report.linted_tasks import linted_tasks

Place = tuple[int, int]
"""Level and number of a task."""

SETS = {
    "all": "every task",
    "metr": "without those that METR's filtered fork removed, where the task is still the same",
    "clean": "those in which `kernelwright lint` finds nothing, not even a weak point",
}


def task_sets(places: Collection[Place], lint: Sequence[Record]) -> dict[str, set[Place]]:
    """Name of a set -> its tasks among some places.

    Args:
        lint: records of `kernelwright lint`. A task without a record does not count as clean.
    """
    clean = {
        (task.level, task.number) for task in linted_tasks(lint) if task.is_linted and not task.ids
    }
    removed = {place for place in places if any(flaw.source == "METR" for flaw in flaws_of(*place))}
    return {"all": set(places), "metr": set(places) - removed, "clean": set(places) & clean}
