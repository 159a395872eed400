"""Processes that search for programs in parallel. Results come in the order of the searches."""

import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Self

import torch

from kernelwright.core.errors import InfraError
from kernelwright.synth.draws import Drawer, DrawOutcome, ProgramSearch

MakeDrawer = Callable[[], Drawer]
"""A picklable function that makes a drawer. Every process calls the function once."""

AHEAD = 3
"""Batches that are handed out in advance for each process, so that no process waits."""

_drawer: Drawer
"""The drawer of this process of the crew."""


def _begin(make: MakeDrawer) -> None:
    global _drawer
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent's to handle
    torch.set_num_threads(1)
    _drawer = make()


def _draw(searches: Sequence[ProgramSearch]) -> list[DrawOutcome]:
    return list(map(_drawer.draw, searches))


class Crew:
    """A context manager that runs searches on `num_workers` processes.

    With one worker the searches run in this process, with torch on one thread.
    """

    def __init__(self, make: MakeDrawer, num_workers: int) -> None:
        self._ahead = AHEAD * num_workers
        self._alone = make() if num_workers == 1 else None
        self._num_threads = torch.get_num_threads()
        if num_workers > 1:
            # A fork of this process could deadlock, because torch has threads. A fork server has
            # imported the drawer's module once, so new processes start without that import.
            context = multiprocessing.get_context("forkserver")
            context.set_forkserver_preload([Drawer.__module__])
            self._pool = ProcessPoolExecutor(num_workers, context, _begin, (make,))

    def __enter__(self) -> Self:
        if self._alone is not None:
            torch.set_num_threads(1)
        return self

    def __exit__(self, *_error: object) -> None:
        if self._alone is None:
            self._pool.shutdown(cancel_futures=True)
        else:
            torch.set_num_threads(self._num_threads)

    def draw(self, searches: Sequence[ProgramSearch]) -> list[DrawOutcome]:
        """The results of these searches.

        Raises:
            InfraError: a process died.
        """
        return next(self.draw_all([searches]))

    def draw_all(self, batches: Iterable[Sequence[ProgramSearch]]) -> Iterator[list[DrawOutcome]]:
        """Yields the results of every batch, in order, while later batches are in progress.

        Raises:
            InfraError: a process died.
        """
        if self._alone is not None:
            for batch in batches:
                yield list(map(self._alone.draw, batch))
            return
        # The number of open batches is limited: `batches` is read only as far as needed, and
        # results that wait for an earlier batch do not pile up.
        waiting: deque[Future[list[DrawOutcome]]] = deque()
        for batch in batches:
            waiting.append(self._pool.submit(_draw, batch))
            if len(waiting) == self._ahead:
                yield _result(waiting.popleft())
        while waiting:
            yield _result(waiting.popleft())


def _result(future: Future[list[DrawOutcome]]) -> list[DrawOutcome]:
    try:
        return future.result()
    except BrokenProcessPool as error:
        raise InfraError("a process that draws programs died; run it again") from error
