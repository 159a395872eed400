"""The rewrites, in the order in which they are tried. Their names are in records."""

from kernelwright.programs.algebra.constants import folded_scale, merged_numbers, own_multiple
from kernelwright.programs.algebra.diagonal import diagonal_product
from kernelwright.programs.algebra.idle import (
    double_negation,
    idle_activation,
    idle_cast,
    idle_dropout,
    nested_clamp,
    neutral_number,
    settled_clamp,
    single_element,
)
from kernelwright.programs.algebra.movement import (
    double_flip,
    idle_copy,
    idle_view,
    rejoined_pieces,
)
from kernelwright.programs.algebra.norms import cancelled_shift, mean_of_norm
from kernelwright.programs.algebra.pools import idle_pool, merged_pools, pool_of_convolution
from kernelwright.programs.algebra.site import Rule
from kernelwright.programs.algebra.sums import (
    pool_of_linear,
    sum_of_outer_product,
    sum_of_product,
)
from kernelwright.programs.algebra.windows import sum_of_convolution

RULES: tuple[Rule, ...] = (
    neutral_number,
    idle_activation,
    nested_clamp,
    settled_clamp,
    idle_dropout,
    double_negation,
    idle_cast,
    single_element,
    idle_view,
    idle_copy,
    double_flip,
    rejoined_pieces,
    idle_pool,
    cancelled_shift,
    mean_of_norm,
    diagonal_product,
    sum_of_product,
    sum_of_outer_product,
    pool_of_linear,
    sum_of_convolution,
    pool_of_convolution,
    merged_pools,
    merged_numbers,
    own_multiple,
    folded_scale,
)
"""Rules that lay open come first, then those that drop the most; weights are scaled once all else
is done.
"""
