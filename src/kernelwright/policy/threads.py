"""How many threads a step on a CPU takes: all of them where cores are free, one where they are not.

Threads of a step wait for each other by turning. Where other processes want the cores, even at the
lowest priority, two threads on two cores write a tenth of what one does.
"""

from collections import deque
from statistics import median

FIRST, MOST = 16, 512
"""Steps between two looks at the other number; more each time that it does not pay."""
LOOKS = 2
"""Steps of a look, of which the better one counts."""
PAYS = 0.9
"""Share of the time that a step must take with the other number."""


class Threads:
    """Asked before every step, told after it how long the step took."""

    def __init__(self, most: int) -> None:
        self._used, self._other = most, 1
        self._between, self._num_steps = FIRST, 0
        self._steps_s: deque[float] = deque(maxlen=FIRST)
        self._looks_s: list[float] = []

    def next(self) -> int:
        """For the next step."""
        return self._other if self._is_looking else self._used

    def took(self, seconds: float) -> None:
        """Record the seconds of the step that `next` was asked for."""
        if not self._is_looking:
            self._steps_s.append(seconds)
            self._num_steps += 1
            return
        self._looks_s.append(seconds)
        if len(self._looks_s) == LOOKS:
            self._decide(min(self._looks_s) < PAYS * median(self._steps_s))

    @property
    def _is_looking(self) -> bool:
        return self._used != self._other and self._num_steps >= self._between

    def _decide(self, pays: bool) -> None:
        if pays:
            self._used, self._other = self._other, self._used
            self._steps_s.clear()
        self._between = FIRST if pays else min(2 * self._between, MOST)
        self._num_steps = 0
        self._looks_s.clear()
