"""Sizes that are not known yet: one normal form, and what a shape rule may ask of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.ops.sizes import Expr, Size, Var, evaluate, linear, variables

NAMES = ("x", "y", "z")
X, Y = Var("x"), Var("y")


def expressions() -> st.SearchStrategy[Size]:
    leaves = st.sampled_from([Var(name) for name in NAMES]) | st.integers(-3, 6)
    return st.recursive(leaves, lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: pair[0] + pair[1]),
        st.tuples(inner, inner).map(lambda pair: pair[0] - pair[1]),
        st.tuples(inner, inner).map(lambda pair: pair[0] * pair[1]),
        st.tuples(inner, st.integers(1, 5)).map(lambda pair: pair[0] // pair[1]),
    ), max_leaves=6)  # fmt: skip


VALUES = st.fixed_dictionaries({name: st.integers(1, 20) for name in NAMES})


def at(size: Size, values: dict[str, int]) -> int:
    return evaluate(size, lambda variable: values[variable.name])


@given(expressions(), expressions(), st.integers(1, 6), VALUES)
def test_arithmetic_of_expressions_is_that_of_their_values(a, b, divisor, values):
    here = at(a, values), at(b, values)
    assert at(a + b, values) == here[0] + here[1]
    assert at(a - b, values) == here[0] - here[1]
    assert at(a * b, values) == here[0] * here[1]
    assert at(a // divisor, values) == here[0] // divisor


@given(expressions(), expressions(), expressions())
def test_sums_and_products_do_not_depend_on_their_order(a, b, c):
    assert a + b + c == c + (b + a)
    assert (a * 2) * b == b * (2 * a)
    assert a - a == 0


@given(expressions(), VALUES)
def test_evaluating_with_expressions_substitutes(size, values):
    shifted = evaluate(size, lambda variable: Var(variable.name) + 1)
    assert at(shifted, values) == at(size, {name: n + 1 for name, n in values.items()})


@given(expressions())
def test_what_has_no_variables_is_an_int(size):
    assert isinstance(size, int) != bool(list(variables(size)))


def test_terms_of_a_sum_are_read_with_their_factors():
    assert linear(X * 2 + Y - 3) == ({X: 2, Y: 1}, -3)


@given(expressions(), expressions())
def test_a_comparison_holds_where_variables_are_large(a, b):
    """For polynomials of this size, a million is large."""
    large = dict.fromkeys(NAMES, 10**6)
    for question in ("__lt__", "__le__", "__gt__", "__ge__"):
        if isinstance(a, Expr):
            try:
                answer = getattr(a, question)(b)
            except ValueError:
                continue
            assert answer == getattr(at(a, large), question)(at(b, large))


def test_values_decide_which_of_two_variables_is_larger():
    with pytest.raises(ValueError, match="values decide"):
        _ = X > Y


@given(expressions(), expressions(), VALUES)
def test_a_divisor_that_is_an_expression_divides_or_is_refused(a, b, values):
    if not isinstance(a, Expr) or not isinstance(b, Expr) or at(b, values) == 0:
        return
    try:
        ratio, rest = a // b, a % b
    except ValueError:
        return
    assert rest == 0
    assert at(ratio, values) * at(b, values) == at(a, values)


def test_factors_divide_their_product():
    assert (X * 6 * Y) // (X * 2) == Y * 3
    assert (X * 4) % X == 0
    assert (X * 4 + 3) % 4 == 3


@pytest.mark.parametrize("divisor", [Y, X * 3, X + 1], ids=str)
def test_other_expressions_do_not_divide(divisor):
    with pytest.raises(ValueError, match="values decide"):
        _ = (X * 2) // divisor


def test_remainders_that_values_decide_are_refused():
    with pytest.raises(ValueError, match="values decide"):
        _ = X % 2


def test_expressions_print_as_they_are_read():
    assert str((X * 2 + 1) // 3 * Y) == "((2 * x + 1) // 3) * y"
