"""Every operator's forms on a GPU, in every dtype: they run, and results are what forms say."""

import random

import pytest
from drawn_forms import Sizes, choose, disagreement, program

from kernelwright.core.seed import derive
from kernelwright.ops.forms.form import Form, FormSpace
from kernelwright.ops.forms.registry import EXCLUDED, forms_of
from kernelwright.ops.registry import operators

DRAWS = 4
"""For each combination of dtypes."""
TRIES = 30
LARGEST = 16


@pytest.mark.parametrize("name", [name for name in operators() if name not in EXCLUDED])
def test_forms_run_in_every_dtype(name: str):
    rng = random.Random(derive(0, name))
    by_dtypes: dict[tuple[str, ...], list[Form]] = {}
    for form in forms_of(operators()[name], FormSpace()):
        by_dtypes.setdefault(tuple(slot.kind.dtype for slot in form.slots), []).append(form)
    for some in by_dtypes.values():
        for _ in range(DRAWS):
            assert not disagreement(*drawn(rng.choice(some), rng), device="cuda")


def drawn(form: Form, rng: random.Random):
    """A call that the operator accepts, as `disagreement` takes it."""
    for _ in range(TRIES):
        sizes = Sizes(rng, LARGEST)
        try:
            arranged = form.arrange(choose(form, rng))
            return form, arranged, sizes, program(form, arranged, sizes)
        except ValueError:
            continue
    pytest.fail(f"{form.op}({form.slots}) is never accepted")
