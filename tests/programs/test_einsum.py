"""Einstein sums fall apart into one product of matrices and the views that it needs."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.programs.lowering.lower import lower
from kernelwright.programs.rewrites.einsum import as_product

SIZES = dict(zip("abcdef", (2, 3, 4, 5, 1, 6), strict=True))


def otherwise(*_, **__):
    return None


@st.composite
def products(draw):
    """The subscripts of two operands and of their product, each in some order: those of batches are
    in all three, those of rows and columns in one operand and the result, the summed in both."""
    letters = draw(st.permutations("abcdef"))
    ends = sorted(draw(st.lists(st.integers(1, 6), min_size=3, max_size=3)))
    summed, batch, rows, columns = (
        letters[first:last] for first, last in zip((0, *ends), (*ends, 6), strict=True)
    )
    terms = ((*batch, *rows, *summed), (*batch, *summed, *columns), (*batch, *rows, *columns))
    return tuple("".join(draw(st.permutations(term))) for term in terms)


@settings(max_examples=200, deadline=None)
@given(products())
def test_the_product_is_what_einsum_computes(terms):
    left, right, out = terms
    text = f"{left},{right}->{out}"
    operands = [
        torch.randn([SIZES[c] for c in term], dtype=torch.float64) for term in (left, right)
    ]
    result = as_product(text, operands, otherwise=otherwise)
    assert result is not None
    torch.testing.assert_close(result, torch.einsum(text, operands))


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk", [(2, 3), (3, 4)]),  # the result's subscripts are implied
        ("bhqk,bkhd->bqhd", [(2, 3, 5, 6), (2, 6, 3, 4)]),
        ("kj,ik->ij", [(3, 4), (2, 3)]),  # the right operand comes first
        ("abcd,cdef->abef", [(2, 3, 4, 5), (4, 5, 6, 7)]),
        ("i,i->", [(4,), (4,)]),
    ],
)
def test_products_are_taken(equation, shapes):
    operands = [torch.randn(shape, dtype=torch.float64) for shape in shapes]
    result = as_product(equation, operands, otherwise=otherwise)
    torch.testing.assert_close(result, torch.einsum(equation, operands))


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,ij->ij", [(2, 3), (2, 3)]),  # nothing is summed
        ("ii,ij->j", [(2, 2), (2, 3)]),  # a diagonal
        ("ij,k->k", [(2, 3), (4,)]),  # sums of one operand alone
        ("...i,...i->...", [(2, 3), (2, 3)]),
        ("bij,bjk->bik", [(1, 2, 3), (4, 3, 5)]),  # one operand is repeated
        ("i->", [(3,)]),
    ],
)
def test_what_is_no_product_is_left_to_pytorch(equation, shapes):
    operands = [torch.randn(shape) for shape in shapes]
    assert as_product(equation, operands, otherwise=otherwise) is None


class Scores(torch.nn.Module):
    def forward(self, query, key):
        return torch.einsum("bqhd,bkhd->bhqk", query, key)


def test_a_module_has_no_views_beside_the_product():
    inputs = (torch.randn(2, 5, 3, 4), torch.randn(2, 6, 3, 4))
    program = lower(Scores(), inputs, {}).program
    assert [call.op for call in program.calls] == ["permute", "permute", "matmul"]
