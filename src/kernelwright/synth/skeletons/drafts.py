"""Draws a form and a choice for each call of a skeleton, until their shapes agree."""

from collections.abc import Iterator
from functools import lru_cache
from random import Random
from typing import Any

from kernelwright.ops.forms.form import Arrangement, Form
from kernelwright.synth.sizes.broadcast import holds
from kernelwright.synth.skeletons.alike import Choices
from kernelwright.synth.skeletons.calls import FittingForm
from kernelwright.synth.skeletons.draft import Draft
from kernelwright.synth.skeletons.plan import SkeletonPlan, TooMany
from kernelwright.synth.skeletons.skeleton import Skeleton, SkeletonCall, Skeletons

_KEPT = 1 << 15
"""The number of arrangements that the cache keeps."""
_PATIENCE = 2
"""The number of failed drafts after which a plan chooses the next drafts."""
_MORE = 8
"""The number of failed planned drafts after which a more detailed plan is made. Such a plan takes
as long as many drafts."""
_MOST = 300
"""The most branches of a plan. A plan with more branches is replaced by a coarser plan, or by no
plan."""


class Unfit(ValueError):
    """No forms and choices of a skeleton go together."""


class Drafts:
    """Makes the drafts of skeletons. The free sizes of a draft are at least `low`."""

    def __init__(self, skeletons: Skeletons, low: int) -> None:
        self._skeletons = skeletons
        self.low = low
        self.choices = Choices()
        self.arranged = lru_cache(_KEPT)(_arranged)

    def of(self, skeleton: Skeleton) -> "SkeletonDrafts":
        return SkeletonDrafts(skeleton, [self._skeletons.fits(c) for c in skeleton.calls], self)


class SkeletonDrafts:
    """Draws drafts of a skeleton. After failures, a plan chooses the first calls.

    A plan changes how many draws fail, never the distribution of the drafts that are returned.
    """

    def __init__(
        self, skeleton: Skeleton, fits: list[tuple[FittingForm, ...]], drafts: Drafts
    ) -> None:
        self._calls = skeleton.calls
        self._fits = fits
        self._all = drafts
        self._plan: SkeletonPlan | None = None
        self._planned = 0
        """The number of first calls that the plan chooses."""
        self._is_coarse = True
        self._reach = 0
        """The number of calls up to the latest at which a draft was given up."""
        self._lost = 0
        """The number of drafts given up at a planned call, or before there was a plan."""

    def draw(self, rng: Random) -> Draft:
        """One draft: for each call a form and a choice, each drawn uniformly.

        Raises:
            Unfit: no forms and choices of the skeleton agree.
            ValueError: the forms and choices drawn do not agree; draw again. The draw stops at the
                first call that shows this.
        """
        draft = Draft()
        planned: Iterator[tuple[FittingForm, Arrangement]] = iter(())
        # A plan takes as long as many drafts, so it is made at the first draw that needs it.
        if self._planned and self._plan is None:
            self._plan = self._ahead()
        if self._plan is not None:
            if not self._plan.total:
                raise Unfit("no forms and choices go together")
            planned = self._plan.draw(rng)
        # Planned calls come from the plan, in proportion to the drafts that go on from there. The
        # other calls are drawn alike from all their forms. A contradiction gives up the whole
        # draft: a retry of one call alone would favour calls that are easy to fit.
        for at, call in enumerate(self._calls):
            try:
                if at < self._planned:
                    fit, arranged = next(planned)
                else:
                    fits = self._fits[at]
                    fit = fits[0] if len(fits) == 1 else rng.choice(fits)
                    arranged = self._arrange(draft, call, fit, rng)
                draft.add(call, fit, arranged)
                draft.check_free(self._all.low)
            except ValueError:
                self._learn(at)
                raise
        return draft

    def refuse(self) -> None:
        """Report that no sizes were found for the last draft, so that later plans are longer."""
        self._learn(len(self._calls) - 1)

    def _learn(self, at: int) -> None:
        """Note the call at which a draft was given up."""
        self._reach = max(self._reach, at + 1)
        # A failure behind the plan asks for a longer plan. A failure inside the plan asks for a
        # closer look at sizes, which is dear and therefore comes late.
        is_beyond = at >= self._planned > 0
        self._lost += not is_beyond
        if is_beyond or self._lost == _PATIENCE:
            self._planned, self._plan = self._reach, None
        elif self._lost == _PATIENCE + _MORE:
            self._is_coarse, self._plan = False, None

    def _ahead(self) -> SkeletonPlan | None:
        """The most detailed plan within `_MOST` branches; None if even the coarse one is larger."""
        try:
            return SkeletonPlan(
                self._calls[: self._planned],
                self._fits[: self._planned],
                self._all.choices,
                self._all.low,
                most=_MOST,
                is_coarse=self._is_coarse,
            )
        except TooMany:
            # Even the coarse plan is too large: draw without a plan. That is slower and as uniform.
            if self._is_coarse:
                self._planned = 0
                return None
            self._is_coarse = True
            return self._ahead()

    def _arrange(
        self, draft: Draft, call: SkeletonCall, fit: FittingForm, rng: Random
    ) -> Arrangement:
        form = fit.form
        if form.axes is None:
            choice = tuple([menu.draw(rng) for menu in form.menus.values()])
            return self._all.arranged(form, choice)
        shapes = [None if at is None else draft.sizes(call.values[at]) for at in fit.reads]
        read = [None if shape is None else holds(shape, self._all.low) for shape in shapes]
        return self._all.choices.broadcast(form).draw(read, rng)


def _arranged(form: Form, choice: tuple[Any, ...]) -> Arrangement:
    return form.arrange(dict(zip(form.menus, choice, strict=True)))
