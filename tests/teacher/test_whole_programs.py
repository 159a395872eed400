"""Programs of twenty calls as kernels throughout, at small sizes: the whole is right."""

from itertools import islice

import pytest
from judging import faults

from kernelwright.programs.fragments.compose import compose
from kernelwright.programs.resizing.variants import scaled_down
from tools.pages.teacher_split import programs, row, split


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 1, 3])
def test_what_a_program_is_split_into_computes_it(number):
    drawn = next(islice(programs(), number, None))
    small = scaled_down(drawn, max_elements=1 << 9, max_flops=1e6)
    variant = split(small)
    assert row(variant).left == ()
    assert faults(small, [compose(variant.program, variant.replacements())]) == []
