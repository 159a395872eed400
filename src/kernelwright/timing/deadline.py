"""How long a job may take: the user's budget, and the deadline of each part of the job."""

import math
import time
from dataclasses import dataclass
from typing import Self

from kernelwright.core.errors import OutOfTime
from kernelwright.timing.stages import worked_s


@dataclass(frozen=True, slots=True)
class Deadline:
    """A point in time on two clocks; the deadline has passed when either clock is past its own."""

    worked_s: float = math.inf
    """On `stages.worked_s`, which stands still while this thread waits for other processes."""
    clock_s: float = math.inf
    """On `time.monotonic`, which never stands still."""

    def left_s(self) -> float:
        """Seconds until the deadline; negative once the deadline has passed."""
        return min(self.worked_s - worked_s(), self.clock_s - time.monotonic())

    @property
    def is_over(self) -> bool:
        return self.left_s() <= 0

    def check(self) -> None:
        """Raises an exception if the deadline has passed.

        Raises:
            OutOfTime: the deadline has passed.
        """
        if self.is_over:
            raise OutOfTime("the budget is spent")

    def share(self, fraction: float) -> Self:
        """Returns the deadline of a part of the job that gets this fraction of the time that is
        left."""
        worked, clock = worked_s(), time.monotonic()
        return type(self)(
            worked + fraction * max(self.worked_s - worked, 0.0),
            clock + fraction * max(self.clock_s - clock, 0.0),
        )

    def for_other_threads(self) -> Self:
        """Returns the same deadline on the clock alone. Each thread counts the seconds that it
        waited for others, so another thread's count does not apply."""
        return type(self)(clock_s=time.monotonic() + self.left_s())


NEVER = Deadline()


@dataclass(frozen=True, slots=True)
class Budget:
    """The user's seconds for a whole job."""

    seconds: float
    begin: Deadline
    """When the job began, on both clocks."""
    deadline: Deadline
    """When the job is to end."""

    @classmethod
    def start(
        cls, seconds: float, *, wall_s: float | None = None, begin_s: float | None = None
    ) -> Self:
        """Starts a budget.

        Args:
            seconds: seconds of the user's time.
            wall_s: seconds on the clock, the waiting for other processes included. Without a value,
                waiting counts as well: the end is after `seconds` on the clock.
            begin_s: on `time.monotonic`, when the job began; now if not given.
        """
        now = time.monotonic()
        clock_s = now if begin_s is None else begin_s
        begin = Deadline(worked_s() - (now - clock_s), clock_s)
        wall_s = seconds if wall_s is None else wall_s
        end = Deadline(begin.worked_s + seconds, begin.clock_s + wall_s)
        return cls(seconds, begin, end)

    def spent_s(self) -> float:
        """Returns seconds since the job began, on the clock."""
        return time.monotonic() - self.begin.clock_s
