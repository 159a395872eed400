"""Weights under which every operator is called equally often.

Uniform over programs is not uniform over operators. An operator with three operands can be wired in
many more ways than an operator with one operand, and dominates programs of 20 calls. Many
distributions over skeletons call all operators equally often. The one with maximum entropy weighs a
skeleton by a product of factors, one for each call's operator. Proportional fitting finds these
factors.

The fit uses all skeletons, sound or not. Weights fitted to sound skeletons alone favour operators
that are rarely sound: with 20 calls, fewer than 1 of 1000 skeletons is then sound.
"""

from collections import Counter
from collections.abc import Mapping
from random import Random

from kernelwright.core.progress import Say
from kernelwright.core.seed import derive
from kernelwright.synth.recipe import DrawRecipe
from kernelwright.synth.skeletons.skeleton import Skeletons
from kernelwright.synth.space import usable_forms

SCALE = 1_000_000
"""The largest weight of an operator."""
_STEP = 0.5
"""Exponent of a round's correction: a full one overshoots, most of all where operators read each
other's results, as those of truth values do."""
_LARGEST_CORRECTION = 8.0


def balanced_weights(
    recipe: DrawRecipe, level: int, *, rounds: int, draws: int, seed: int, say: Say
) -> Mapping[str, int]:
    """Operator -> weight (1 to `SCALE`) that balances the operators of programs of a level.

    Args:
        recipe: its own weights are the start.
        level: the number of calls of a skeleton.
        rounds: corrections of the weights.
        draws: skeletons drawn in each round.
        say: receives a line for each round.
    """
    usable = usable_forms(recipe)
    factors = {form.op: float(recipe.weight(form.op)) for form in usable}
    target = draws * level / len(factors)
    for number in range(rounds):
        weights = _whole(factors)
        skeletons = Skeletons(usable, weights=weights, width=recipe.width)
        calls = _calls(skeletons, level, draws, Random(derive(seed, "balance", number)))
        # An operator that was never drawn counts as 0.3 calls: its correction stays finite.
        shares = {op: max(calls[op], 0.3) / target for op in factors}
        say(f"round {number}: shares {min(shares.values()):.2f} to {max(shares.values()):.2f}")
        for op, share in shares.items():
            factors[op] *= min(1 / share, _LARGEST_CORRECTION) ** _STEP
    return _whole(factors)


def _whole(factors: Mapping[str, float]) -> dict[str, int]:
    largest = max(factors.values())
    return {op: max(round(SCALE * f / largest), 1) for op, f in sorted(factors.items())}


def _calls(skeletons: Skeletons, level: int, draws: int, rng: Random) -> Counter[str]:
    return Counter(call.op for _ in range(draws) for call in skeletons.sample(level, rng).calls)
