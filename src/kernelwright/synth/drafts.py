"""Forms and choices of a skeleton, drawn until they go together."""

from functools import lru_cache
from random import Random
from typing import Any

from kernelwright.ops.forms.form import Arrangement, Form
from kernelwright.synth.broadcast import Broadcast
from kernelwright.synth.calls import Fit
from kernelwright.synth.draft import Draft
from kernelwright.synth.skeleton import Skeleton, SkeletonCall, Skeletons

_KEPT = 1 << 14
"""Arrangements."""


class Drafts:
    """Drafts of skeletons. A draft's sizes that are free are `low` at least."""

    def __init__(self, skeletons: Skeletons, low: int) -> None:
        self._skeletons = skeletons
        self._low = low
        self._arranged = lru_cache(_KEPT)(_arranged)
        self._broadcast = lru_cache(_KEPT)(Broadcast)

    def draw(self, skeleton: Skeleton, rng: Random) -> Draft:
        """For each call a form and a choice, uniformly.

        Raises:
            ValueError: what was drawn does not go together; draw again. It is found out as early
                as it shows, which changes nothing in what is drawn.
        """
        draft = Draft()
        for call in skeleton.calls:
            fits = self._skeletons.fits(call)
            fit = fits[0] if len(fits) == 1 else rng.choice(fits)
            draft.add(call, fit, self._arrange(draft, call, fit, rng))
            draft.check_free(self._low)
        return draft

    def _arrange(self, draft: Draft, call: SkeletonCall, fit: Fit, rng: Random) -> Arrangement:
        form = fit.form
        if form.axes is None:
            return self._arranged(form, tuple([menu.draw(rng) for menu in form.menus.values()]))
        read = [None if at is None else draft.sizes(call.values[at]) for at in fit.reads]
        return self._broadcast(form).draw(read, self._low, rng)


def _arranged(form: Form, choice: tuple[Any, ...]) -> Arrangement:
    return form.arrange(dict(zip(form.menus, choice, strict=True)))
