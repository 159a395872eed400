"""Distributes items over threads, each with a process of its own, and yields the results."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from queue import Empty, SimpleQueue
from typing import TypeVar

from kernelwright.timing.clock import gpus

Item = TypeVar("Item")
Owned = TypeVar("Owned")
Result = TypeVar("Result")


def spread(
    items: Sequence[Item],
    workers: int,
    opened: Callable[[int, str], AbstractContextManager[Owned]],
    work: Callable[[Owned, Item], Result],
) -> Iterator[Result]:
    """Yield the result of each item, in the order in which results are ready.

    Args:
        workers: the most threads.
        opened: makes the process of a thread, from the number of the thread and its GPU. The GPU
            is "" if the machine has no GPU.
        work: computes the result of an item with the process of a thread.

    Raises:
        Exception: whatever `opened` or `work` raises. All threads end after their present items.
    """
    left, results = SimpleQueue[Item](), SimpleQueue[Result | BaseException]()
    for item in items:
        left.put(item)
    gpus_or_none = gpus() or [""]

    def serve(number: int) -> None:
        try:
            gpu = gpus_or_none[number % len(gpus_or_none)]
            with opened(number, gpu) as owned, suppress(Empty):
                while True:  # until `left` is empty
                    results.put(work(owned, left.get_nowait()))
        except BaseException as error:
            results.put(error)

    workers = min(workers, len(items))
    with ThreadPoolExecutor(workers or 1) as pool:
        for number in range(workers):
            pool.submit(serve, number)
        try:
            for _ in items:
                result = results.get()
                if isinstance(result, BaseException):
                    raise result
                yield result
        finally:
            # If the caller takes no more results, empty the queue. Threads then end after their
            # present items.
            with suppress(Empty):
                while True:
                    left.get_nowait()
