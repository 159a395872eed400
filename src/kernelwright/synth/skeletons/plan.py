"""Counts the drafts of a skeleton ahead, so that draws avoid choices that later calls contradict.

A draft drawn call by call is dropped at a contradiction. Some skeletons lose nearly all drafts.
Later calls depend on earlier calls only through the shapes of the values read. So a plan lists
the shapes that values can have after each call, up to the names of sizes. For each choice, the
plan sums the weights of all continuations without a contradiction, and draws in proportion.
A plan is less exact than a draft: a size with a variable that no other size has becomes a new
variable. So a plan may hold contradictory drafts, but holds every consistent draft. Draws that
drop the contradictory drafts are therefore draws from all consistent drafts.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, count
from random import Random

from kernelwright.ops.forms.form import Arrangement, Shape
from kernelwright.ops.sizes import Expr, Size, Var, variables
from kernelwright.synth.sizes.anew import named_anew, only_ones
from kernelwright.synth.sizes.broadcast import holds
from kernelwright.synth.sizes.equations import Contradiction, Equations
from kernelwright.synth.sizes.meet import check_size, meet
from kernelwright.synth.skeletons.alike import Alike, Choices, Sight
from kernelwright.synth.skeletons.calls import FittingForm
from kernelwright.synth.skeletons.skeleton import SkeletonCall
from kernelwright.synth.skeletons.weighted import Weighted, weighted

State = tuple[Shape, ...]
"""Shapes of the values that later calls read, in order of the values."""

Branch = tuple[Alike, State]
"""Choices of a call, and the state after the call."""


class TooMany(Exception):
    """A plan would have more branches than it may."""


class SkeletonPlan:
    """Forms and choices for the first calls of a skeleton, drawn in proportion to what can follow.

    `total` is the weight of all combinations without a contradiction that the plan can see.
    """

    def __init__(
        self,
        calls: Sequence[SkeletonCall],
        fits: Sequence[tuple[FittingForm, ...]],
        choices: Choices,
        low: int,
        *,
        most: int,
        is_coarse: bool,
    ) -> None:
        """A plan.

        Args:
            fits: the forms that fit each call.
            low: the least value of a size that is not yet known.
            most: the largest number of branches that the plan may have.
            is_coarse: record only whether a size is 1, and nothing else about the size.

        Raises:
            TooMany: the plan would have more than `most` branches.
        """
        self._calls = calls
        self._fits = fits
        self._choices = choices
        self._low = low
        self._most = most
        self._is_coarse = is_coarse
        self._num_branches = 0
        self._live = _live(calls)
        self._tables: dict[tuple[int, State], Weighted[Branch]] = {}
        self.total = self._table(0, ()).total
        """The weight of all combinations without a visible contradiction; 0 if there are none."""

    def draw(self, rng: Random) -> Iterator[tuple[FittingForm, Arrangement]]:
        """A draw for each call, in proportion to the weights; `total` must not be 0."""
        state: State = ()
        for at in range(len(self._calls)):
            alike, state = self._table(at, state).draw(rng)
            fit, way = alike.ways.draw(rng)
            yield fit, way(rng)

    def _table(self, at: int, state: State) -> Weighted[Branch]:
        """The table of the call at a place, when the values that the call reads have these
        shapes."""
        table = self._tables.get((at, state))
        if table is None:
            branches = []
            for branch in self._branches(at, state):
                self._num_branches += 1
                if self._num_branches > self._most:
                    raise TooMany
                alike, after = branch
                ahead = 1 if at + 1 == len(self._calls) else self._table(at + 1, after).total
                # A branch without a continuation has weight 0 and is left out. So a draw never ends
                # in one.
                if ahead:
                    branches.append((branch, alike.ways.total * ahead))
            # Equal states have equal continuations, whatever led there: one table serves them all.
            table = self._tables[at, state] = weighted(branches)
        return table

    def _branches(self, at: int, state: State) -> Iterator[Branch]:
        call, live = self._calls[at], self._live[at + 1]
        shapes = dict(zip(self._live[at], state, strict=True))
        read = [shapes.get(value) for value in call.values]
        sizes = [size for shape in read if shape is not None for size in shape]
        results = [which for which, value in enumerate(call.results) if value in live]
        sight = Sight(
            tuple([None if shape is None else holds(shape, self._low) for shape in read]),
            tuple(self._matter(call, shapes, live)),
            tuple(results),
            self._is_coarse,
        )
        new = [value for value, shape in zip(call.values, read, strict=True) if shape is None]
        new += [call.results[which] for which in results]
        for alike in self._choices.alike(self._fits[at], sight):
            equations = Equations()
            now: Mapping[int, Shape] = shapes
            made_shapes: Sequence[Shape] = alike.made
            # Choices that ask nothing of the sizes cannot contradict them: no equations needed.
            if alike.asks:
                try:
                    made_shapes = self._made(alike, sizes, equations)
                    now = self._solved(shapes, equations)
                # The choice cannot follow this state, so it is no branch.
                except Contradiction:
                    continue
            now = {**now, **dict(zip(new, made_shapes, strict=True))}
            yield alike, self._seen([now[value] for value in live], equations)

    def _matter(
        self, call: SkeletonCall, shapes: Mapping[int, Shape], live: Sequence[int]
    ) -> Iterator[bool]:
        """For each size that the call reads: whether anything but the call's results depends on the
        size."""
        times = Counter(chain.from_iterable(map(variables, chain(*shapes.values()))))
        for value in call.values:
            for size in shapes.get(value, ()):
                # A size that only this call reads cannot contradict anything later. To ignore such
                # sizes joins many choices into one branch.
                # Only a lone variable is free of other sizes: a sum or a product binds its parts.
                is_alone = isinstance(size, Var) and times[size] == 1 and value not in live
                yield isinstance(size, int) or not (is_alone or self._is_coarse)

    def _seen(self, shapes: Sequence[Shape], equations: Equations) -> State:
        """The known facts about shapes that are made."""
        if self._is_coarse:
            return only_ones(shapes, letter="r")[0]
        # A state keeps shapes and no equations, so the range of a remainder would be forgotten.
        # Sizes that depend on remainders or multiples therefore become new variables.
        return named_anew(shapes, letter="r", hidden={*equations.remainders, *equations.multiples})[
            0
        ]

    def _made(self, alike: Alike, sizes: Sequence[Size], equations: Equations) -> Sequence[Shape]:
        """The shapes of the inputs and results that a call makes when it reads these sizes.

        Raises:
            Contradiction: the choice and the sizes do not agree.
        """
        numbers = count()
        have = tuple([sizes[place] for place, _ in alike.asks])
        asks = tuple([size for _, size in alike.asks])
        named = meet([have], [asks], equations, lambda: Var(f"n{next(numbers)}"))
        shapes = [tuple(map(equations.solved, named.shape(shape))) for shape in alike.made]
        for size in chain(*shapes):
            if isinstance(size, Expr):
                check_size(size, self._low, equations)
            elif size < 1:
                raise Contradiction(f"a size of {size}")
        return shapes

    def _solved(self, shapes: Mapping[int, Shape], equations: Equations) -> dict[int, Shape]:
        """The shapes after substitution of all that the equations have solved.

        Raises:
            Contradiction: a size can no longer reach the least size.
        """
        for size in chain(*shapes.values()):
            if isinstance(size, Expr):
                check_size(size, self._low, equations)
        return {value: tuple(map(equations.solved, shape)) for value, shape in shapes.items()}


def _live(calls: Sequence[SkeletonCall]) -> list[tuple[int, ...]]:
    """Before each call, and after the last: the values made that are still to be read."""
    last: dict[int, int] = {}
    first: dict[int, int] = {}
    for at, call in enumerate(calls):
        for value in call.values:
            last[value] = at
            first.setdefault(value, at)
        for value in call.results:
            first[value] = at
    return [
        tuple(sorted(value for value in last if first[value] < at <= last[value]))
        for at in range(len(calls) + 1)
    ]
