"""Numbers as functions of sizes."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kernelwright.programs.sizes.fit import MIN_QUOTIENTS, fitted

SIZES = [{"n": n, "m": m} for n, m in ((8, 12), (2, 64), (31, 5), (17, 17), (64, 40))]
TEXTS = {"n": "x0.shape[0]", "m": "x1.shape[2]"}


class Shaped:
    def __init__(self, *shape):
        self.shape = shape


def value(formula, sizes):
    return eval(formula, {"math": math, **sizes})


def value_of(text, sizes):
    names = {"x0": Shaped(sizes["n"]), "x1": Shaped(0, 0, sizes["m"])}
    return eval(text, names)


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        ("7", "7"),
        ("n", "x0.shape[0]"),
        ("12 * n", "x0.shape[0] * 12"),
        ("n - 1", "x0.shape[0] - 1"),
        ("n * m", "x1.shape[2] * x0.shape[0]"),
        ("3 * m * m", "x1.shape[2] * x1.shape[2] * 3"),
        ("2 * n + m + 1", "x1.shape[2] + x0.shape[0] * 2 + 1"),
        ("(n + 1) // 2 * 64", "(x0.shape[0] + 1) // 2 * 64"),
        ("-1", "-1"),
        ("(n, 3, m)", "(x0.shape[0], 3, x1.shape[2])"),
        ("0.5", "0.5"),
        ("1 / m", "1.0 / x1.shape[2]"),
        ("2.0 * n", "2.0 * x0.shape[0]"),
        ("1 / math.sqrt(n)", "1.0 / x0.shape[0] ** 0.5"),
        ("math.nan", "nan"),
        ('"mean"', "'mean'"),
    ],
)
def test_a_number_becomes_an_expression_of_sizes(formula, text):
    values = [value(formula, sizes) for sizes in SIZES]
    found = fitted(values, SIZES, TEXTS)
    assert repr(found) == text
    assert found == values[0] or values[0] != values[0]


@pytest.mark.parametrize(
    "formula",
    [
        "n**3",
        "n % 3",
        "n > 8",
        "(n,) if n > 8 else (n, m)",
        "1 if n > 8 else 1.0",
        '"a" * n',
    ],
)
def test_what_is_no_known_function_is_refused(formula):
    with pytest.raises(ValueError, match=r"no known function|zip|argument"):
        fitted([value(formula, sizes) for sizes in SIZES], SIZES, TEXTS)


@given(
    st.integers(-50, 50),
    st.integers(-50, 50),
    st.integers(1, 64),
    st.integers(0, 63),
    st.sampled_from("nm"),
)
def test_an_expression_gives_the_values_that_it_was_found_from(slope, shift, divisor, rest, name):
    def function(sizes):
        return (sizes[name] + rest % divisor) // divisor * slope + shift

    quotients = {(sizes[name] + rest % divisor) // divisor for sizes in SIZES}
    assume(len(quotients) >= MIN_QUOTIENTS)
    found = fitted([function(sizes) for sizes in SIZES], SIZES, TEXTS)
    text = repr(found)
    for sizes in SIZES:
        assert value_of(text, sizes) == function(sizes)
