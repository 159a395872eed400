"""Spreads items over threads that each own a process, and gives results as they come."""

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
    """Yield the results, in the order in which they are ready.

    Args:
        opened: makes what a thread owns, of its number and its GPU ("" where there is none).
        work: may raise; the error ends all threads after their present items.
    """
    left, results = SimpleQueue[Item](), SimpleQueue[Result | BaseException]()
    for item in items:
        left.put(item)
    cards = gpus() or [""]

    def serve(number: int) -> None:
        try:
            with opened(number, cards[number % len(cards)]) as owned, suppress(Empty):
                while True:
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
        finally:  # where the caller takes no more, threads end after their present items
            with suppress(Empty):
                while True:
                    left.get_nowait()
