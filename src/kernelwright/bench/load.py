"""How busy the machine is while a block runs: its cores and its GPU, from the system's counters."""

import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from statistics import mean
from types import TracebackType
from typing import Self


class Load:
    """A context manager; shares of 0 to 1 are there once it is left."""

    def __init__(self) -> None:
        self.cpu: float | None = None
        """Mean share of all cores that was not idle."""
        self.gpu: float | None = None
        """Mean share of time in which some kernel ran; None without nvidia-smi."""
        self._begin: tuple[int, int] = (0, 0)
        self._gpu_percents: list[float] = []
        self._sampler: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._begin = _cpu_ticks()
        query = ["--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "--loop-ms=500"]
        with suppress(OSError):
            self._sampler = subprocess.Popen(
                ["nvidia-smi", *query], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
            self._reader = threading.Thread(target=self._read, daemon=True)
            self._reader.start()
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _value: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        begin, end = self._begin, _cpu_ticks()
        if end[1] > begin[1]:
            self.cpu = (end[0] - begin[0]) / (end[1] - begin[1])
        if self._sampler is not None and self._reader is not None:
            self._sampler.terminate()
            self._sampler.wait()
            self._reader.join(5.0)
        if self._gpu_percents:
            self.gpu = mean(self._gpu_percents) / 100

    def _read(self) -> None:
        assert self._sampler is not None
        assert self._sampler.stdout is not None
        for line in self._sampler.stdout:
            with suppress(ValueError):
                self._gpu_percents.append(float(line))


def _cpu_ticks() -> tuple[int, int]:
    """(busy, all) ticks of all cores since start; zeros where the system does not say."""
    path = Path("/proc/stat")
    if not path.exists():
        return 0, 0
    ticks = [int(field) for field in path.read_text().splitlines()[0].split()[1:9]]
    idle = ticks[3] + ticks[4]  # idle, and waiting for a disk
    return sum(ticks) - idle, sum(ticks)
