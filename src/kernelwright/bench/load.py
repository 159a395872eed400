"""Measures how busy cores and GPU are while a block runs, from the system's counters."""

import math
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from statistics import mean
from typing import Self

import psutil

_EVERY_S = 0.25


class Load:
    """A context manager that samples the load. `cpu` and `gpu`, 0 to 1, are set when it is left."""

    def __init__(self) -> None:
        self.cpu: float | None = None
        """Mean share of all cores that was not idle."""
        self.gpu: float | None = None
        """Mean share of time in which a kernel ran; None without nvidia-smi."""
        self._counts: list[tuple[float, float, float]] = []
        """(time.time(), busy, all) of all cores since they started."""
        self._gpu_percents: list[float] = []
        self._sampler: subprocess.Popen[str] | None = None
        self._has_ended = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        query = ["--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "--loop-ms=500"]
        self._begin(self._count)
        with suppress(OSError):
            self._sampler = subprocess.Popen(
                ["nvidia-smi", *query], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
            self._begin(self._read)
        return self

    def __exit__(self, *_error: object) -> None:
        self._has_ended.set()
        if self._sampler is not None:
            self._sampler.terminate()
            self._sampler.wait()
        for thread in self._threads:
            thread.join(5.0)
        self.cpu = self.cpu_between(-math.inf, math.inf)
        if self._gpu_percents:
            self.gpu = mean(self._gpu_percents) / 100

    def cpu_between(self, begin_s: float, end_s: float) -> float | None:
        """The mean share of all cores that was not idle between two `time.time()`; None without two
        samples between them."""
        counts = [(busy, total) for at_s, busy, total in self._counts if begin_s <= at_s <= end_s]
        if not counts or counts[0][1] == counts[-1][1]:
            return None
        (busy, total), (busy_then, total_then) = counts[-1], counts[0]
        return (busy - busy_then) / (total - total_then)

    def _begin(self, work: Callable[[], None]) -> None:
        self._threads.append(threading.Thread(target=work, daemon=True))
        self._threads[-1].start()

    def _count(self) -> None:
        has_ended = False
        while not has_ended:
            self._counts.append((time.time(), *_cpu_seconds()))
            has_ended = self._has_ended.wait(_EVERY_S)
        self._counts.append((time.time(), *_cpu_seconds()))

    def _read(self) -> None:
        assert self._sampler is not None
        assert self._sampler.stdout is not None
        for line in self._sampler.stdout:
            with suppress(ValueError):
                self._gpu_percents.append(float(line))


def _cpu_seconds() -> tuple[float, float]:
    """(busy, all) seconds of all cores since the machine started."""
    times = psutil.cpu_times()
    every = sum(times[:8])  # the fields after these are parts of "user" and "nice"
    return every - times.idle - getattr(times, "iowait", 0.0), every
