"""Facts about operators that packages outside of `ops` ask for.

The definition of an operator names its traits (`Operator.having`), and `registry.names_with`
selects operators by trait. So no other module keeps a list of operators for such a fact.
"""

from enum import StrEnum
from typing import NamedTuple


class Trait(StrEnum):
    """A fact about the calls of an operator."""

    # Arithmetic
    ADDS = "adds"
    """Adds values or subtracts them. A sum over the result is the sum of the operands' sums."""
    SHIFTS = "shifts"
    """The input plus or minus the second operand, which may have a factor `alpha`."""
    SCALES = "scales"
    """Multiplies or divides. If a factor is constant along a summed axis, the sum may be computed
    first and scaled afterwards."""
    CLAMPS = "clamps"
    """Limits values from below, from above or both, and returns the others as they are."""
    CHEAP = "cheap"
    """A kernel may compute the call again for each use: a few instructions an element, and no
    special function. (Batch norm: with given statistics.)"""
    UNDOES_ITSELF = "undoes itself"
    """Two such calls in a row return the input."""
    ORDERS = "orders"
    """Compares two values by size."""
    TESTS_EQUALITY = "tests equality"
    """Compares two values for equality or inequality."""
    READS_TRUTH = "reads truth"
    """Asks of each value only whether the value is zero."""

    # Products of matrices
    MATRIX_PRODUCT = "matrix product"
    """Multiplies two factors, at least one of them a matrix, and may add a third operand."""
    MATMUL = "matmul"
    """`torch.matmul` of the same factors gives the same result."""

    ADDS_OPERAND = "adds operand"
    """Adds `input`, scaled by `beta`, to the product of the two other operands, scaled by `alpha`.
    With `beta` 0 the call does not read `input`."""
    TRANSPOSED = "transposed"
    """A transposed convolution: each element of the input adds to a window of the result. The first
    dimension of the weight belongs to the input."""

    # Reductions
    SUMS = "sums"
    """The sum or the mean of all elements along the reduced axes."""
    AVERAGES_WINDOWS = "averages windows"
    """The mean of the elements of each window."""
    LARGEST_OF_WINDOWS = "largest of windows"
    """The largest element of each window."""
    ADAPTIVE = "adaptive"
    """A pool that is told the size of the result, and not the size of the windows."""
    ESTIMATED_BY_PART = "estimated by part"
    """Some of the reduced elements give about the same result, up to a known factor. So a kernel
    that skips elements may pass."""
    KNOWN_OF_ONE = "known of one"
    """Along an axis of size 1 the result is the element, its absolute value, 0 or 1."""
    INDEX_OF_LARGEST = "index of largest"
    """The last result is the position of the largest element."""
    INDEX_OF_SMALLEST = "index of smallest"
    """The last result is the position of the smallest element."""
    TARGET_PER_ROW = "target per row"
    """A loss whose target has an element for each row of the input."""

    # Normalizations
    SOFTMAX = "softmax"
    """The softmax along `dim`, or its logarithm."""
    IGNORES_SHIFT = "ignores shift"
    """Takes back a shift of a group (`Operator.normalized_axes`), and keeps no statistics that
    depend on the shift."""

    # Movement
    RESHAPES = "reshapes"
    """A view of all elements in the same order."""
    PERMUTES = "permutes"
    """A view of all elements with dimensions in another order."""
    CUTS = "cuts"
    """A view of a part of the elements, or several such views."""
    SPLITS = "splits"
    """All elements in pieces, each a view. `torch.cat` along `dim` joins the pieces again."""
    BROADCASTS = "broadcasts"
    """A view that repeats elements."""
    CUTS_TRIANGLE = "cuts triangle"
    """Sets the elements on one side of a diagonal to zero."""
    KEEPS_LOWER_TRIANGLE = "keeps lower triangle"
    """Sets the elements above a diagonal to zero, and keeps those on the diagonal."""
    REORDERS = "reorders"
    """A copy of all elements in another order, of the same shape."""


class ProductFactor(NamedTuple):
    """An operand of a sum of products."""

    name: str
    """The parameter."""
    dim: int
    """The dimension that is summed over, counted from the last: -1 or -2."""
