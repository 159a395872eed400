"""The ways to write a program, and the choice of those that become candidates."""

import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from kernelwright.core.candidate import Candidate
from kernelwright.teacher.text.expressions import NotWritable

Draw = Literal["cost", "uniform"]
"""How candidates are drawn: two thirds by the family's estimate of cost, the rest from all others;
or all of them from all ways alike."""


@dataclass(frozen=True, slots=True)
class Way:
    """One schedule of a program in one form."""

    kind: Hashable
    """Ways of one kind are much alike: favourites are spread over kinds."""
    write: Callable[[], Candidate] = field(compare=False)
    """Raises NotWritable where the form does not fit after all."""
    is_sure: bool = True
    """Whether the result is right in the precision that was asked for. Other ways are right only if
    PyTorch itself rounds more coarsely, so the judge has to decide."""


def written(ways: Iterable[Way]) -> Iterator[Candidate]:
    """Yields distinct candidates in the order of the ways, without ways that cannot be written."""
    seen = set()
    for way in ways:
        try:
            candidate = way.write()
        except NotWritable:
            continue
        if candidate.source not in seen:
            seen.add(candidate.source)
            yield candidate


def is_writable(attempt: Callable[[], object]) -> bool:
    """Whether an attempt to write raises no NotWritable."""
    try:
        attempt()
    except NotWritable:
        return False
    return True


def order(ways: Sequence[Way], limit: int, seed: int, draw: Draw) -> list[Way]:
    """All ways in the order in which they are to be written.

    Args:
        ways: best first.
        limit: number of candidates that are wanted. With "cost", two thirds of so many are
            favourites, spread over kinds; all other ways follow in random order.
        seed: of the random order.
        draw: "uniform" puts all ways in random order.
    """
    drawn = random.Random(seed)
    best = [] if draw == "uniform" else _spread(ways, limit - limit // 3)
    taken = set(best)
    rest = [at for at in range(len(ways)) if at not in taken]
    drawn.shuffle(rest)
    return [ways[at] for at in (*best, *rest)]


def any_of(ways: Sequence[Way], number: int, seed: int) -> Candidate | None:
    """One candidate, drawn from the `number` that would be made first; None if no way fits.

    Args:
        seed: equal seeds give equal candidates.
    """
    rng = random.Random(seed)
    ordered = order(ways, number, rng.randrange(1 << 31), "cost")
    first = rng.sample(ordered[:number], min(number, len(ordered)))
    return next(written([*first, *ordered[number:]]), None)


def first_of(ways: Sequence[Way]) -> Candidate | None:
    """The candidate of the first way that can be written; None if no way can."""
    return next(written(ways), None)


def _spread(ways: Sequence[Way], count: int) -> list[int]:
    """Positions of `count` ways, best first and spread over kinds.

    Each way of a kind that was taken moves the other ways of this kind back by two places.
    """
    best: list[int] = []
    left = list(range(len(ways)))
    taken: Counter[Hashable] = Counter()
    while left and len(best) < count:
        place = min(left, key=lambda at: at + 2 * taken[ways[at].kind])
        left.remove(place)
        best.append(place)
        taken[ways[place].kind] += 1
    return best
