"""Chooses the number of threads of a decoding step on a CPU: all if cores are free, else one.

Threads of a step wait for each other in a busy loop. If other processes want the cores, even at the
lowest priority, two threads on two cores write a tenth as fast as one thread does.
"""

from collections import deque
from statistics import median

FIRST, MOST = 16, 512
"""Steps between two trials of the other number of threads: first `FIRST`, then more after each
trial that does not pay, up to `MOST`."""
LOOKS = 2
"""Steps of a trial, of which the faster step counts."""
PAYS = 0.9
"""The other number pays if a step takes less than this share of the time."""


class Threads:
    """Compares two numbers of threads by the times of steps. Call `next` before every step, and
    `took` after it."""

    def __init__(self, most: int) -> None:
        self._used, self._other = most, 1
        self._between, self._num_steps = FIRST, 0
        self._steps_s: deque[float] = deque(maxlen=FIRST)
        self._looks_s: list[float] = []

    def next(self) -> int:
        """The number of threads for the next step."""
        return self._other if self._is_looking else self._used

    def took(self, seconds: float) -> None:
        """Record the seconds of the step that `next` was asked for."""
        if not self._is_looking:
            self._steps_s.append(seconds)
            self._num_steps += 1
            return
        self._looks_s.append(seconds)
        # The best step of a trial is compared with the median of many steps, so one slow step of a
        # trial decides nothing.
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
