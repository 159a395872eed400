"""Computes Einstein sums of two tensors as products of matrices, with as few views as possible."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch


@dataclass(frozen=True, slots=True)
class _Product:
    """The subscripts of two operands and of the sum of their products."""

    left: str
    right: str
    out: str
    batch: str
    """In both operands and the result."""
    rows: str
    """In the left operand and the result."""
    columns: str
    """In the right operand and the result."""
    summed: str
    """In both operands alone."""

    @classmethod
    def of(cls, left: str, right: str, out: str) -> Self:
        return cls(
            left=left,
            right=right,
            out=out,
            batch="".join(c for c in out if c in left and c in right),
            rows="".join(c for c in out if c in left and c not in right),
            columns="".join(c for c in out if c in right and c not in left),
            summed="".join(c for c in left if c in right and c not in out),
        )

    @property
    def order(self) -> str:
        """Subscripts in the order of the product's dimensions."""
        return self.batch + self.rows + self.columns

    @property
    def is_complete(self) -> bool:
        """Something is summed, and no operand is summed over a subscript of its own."""
        named = {*self.order, *self.summed}
        return bool(self.summed) and named == {*self.left, *self.right, *self.out}


def as_product(
    equation: str,
    operands: Sequence[torch.Tensor],
    *,
    path: Sequence[int] | None = None,
    otherwise: Callable[..., Any],
) -> Any:
    """Compute `torch.einsum` with one `torch.matmul` where the equation is a product of two tensors
    whose sizes agree. `otherwise` computes all other equations.

    Args:
        equation, operands, path: of `torch.einsum`'s operator, as of `otherwise`.
    """
    product = _parsed(equation) if len(operands) == 2 else None
    if product is None or not _sizes_agree(product, *operands):
        return otherwise(equation, operands, path=path)
    left, right = operands
    # With swapped operands, rows and columns swap. That may give the wanted order of dimensions
    # without a permuted result.
    turned = _Product.of(product.right, product.left, product.out)
    if product.order != product.out and turned.order == turned.out:
        product, left, right = turned, right, left
    sizes = dict(zip(product.left + product.right, (*left.shape, *right.shape), strict=True))
    left = _matrices(left, product.left, product.batch, (product.rows, product.summed))
    right = _matrices(right, product.right, product.batch, (product.summed, product.columns))
    result = torch.matmul(left, right)
    if len(product.rows) != 1 or len(product.columns) != 1:
        result = result.reshape([sizes[c] for c in product.order])
    return _permuted(result, product.order, product.out)


def _parsed(equation: str) -> _Product | None:
    """None where the equation is no product of two tensors: an ellipsis, a diagonal, a sum of one
    operand alone."""
    inputs, arrow, out = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if len(terms) != 2 or "." in equation:
        return None
    left, right = terms
    if not arrow:  # subscripts that occur once, in the alphabet's order
        out = "".join(sorted(c for c in left + right if (left + right).count(c) == 1))
    product = _Product.of(left, right, out)
    has_diagonal = any(len(set(term)) < len(term) for term in (left, right, out))
    return product if product.is_complete and not has_diagonal else None


def _sizes_agree(product: _Product, left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether shared subscripts have equal sizes: einsum would stretch a size of 1, matmul not."""
    sizes = dict(zip(product.left, left.shape, strict=True))
    return all(sizes.get(c, n) == n for c, n in zip(product.right, right.shape, strict=True))


def _matrices(
    operand: torch.Tensor, names: str, batch: str, sides: tuple[str, str]
) -> torch.Tensor:
    """The operand as (batch.., first side, second side), the subscripts of a side in one
    dimension."""
    operand = _permuted(operand, names, batch + "".join(sides))
    if all(len(side) == 1 for side in sides):
        return operand
    sizes = operand.shape
    first = len(batch) + len(sides[0])
    rows, columns = sizes[len(batch) : first].numel(), sizes[first:].numel()
    return operand.reshape(*sizes[: len(batch)], rows, columns)


def _permuted(value: torch.Tensor, names: str, wanted: str) -> torch.Tensor:
    """The dimensions of these names in the order that is wanted."""
    return value if names == wanted else value.permute([names.index(c) for c in wanted])
