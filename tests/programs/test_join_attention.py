"""Attention that is spelled out becomes one call, and computes what it did."""

from math import inf

import pytest
import torch

from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.program import Init
from kernelwright.programs.reference import make_inputs, run
from kernelwright.programs.rewrites.join_attention import join_attention
from kernelwright.programs.rewrites.rewrite import WIDE_HEAD

Q, K, V = (2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 4)


class Attention:
    """softmax((query @ keys) * 0.5, changed) @ values, with a hook for what changes scores."""

    def __init__(self, shapes=(Q, K, V), dtype="float32"):
        self.builder = Builder()
        self.query, self.key, self.value = (
            self.builder.input(TensorType(shape, dtype)) for shape in shapes
        )

    def scores(self, scale=0.5):
        [turned] = self.builder.call("transpose", input=self.key, dim0=-2, dim1=-1)
        [scores] = self.builder.call("matmul", input=self.query, other=turned)
        if scale is not None:
            [scores] = self.builder.call("mul", input=scores, other=scale)
        return scores

    def program(self, scores, *others, dim=-1):
        [shares] = self.builder.call("softmax", input=scores, dim=dim)
        made = self.builder.call("matmul", input=shares, other=self.value)
        return self.builder.program([*made, *others])

    def mask(self, *shape):
        return self.builder.input(TensorType(shape, "bool"), Init("randint", 0, 2))

    def change(self, op, **values):
        [made] = self.builder.call(op, **values)
        return made


def joined(program):
    """The only attention of the rewritten program, which has the values of the given one."""
    rewritten = join_attention(program)
    inputs = make_inputs(program, 3)
    ours, theirs = (run(each, inputs, dtype=torch.float64) for each in (rewritten, program))
    for mine, wanted in zip(ours, theirs, strict=True):
        kept = ~wanted.isnan()  # rows without any key
        torch.testing.assert_close(mine[kept], wanted[kept])
    [attention] = [c for c in rewritten.calls if c.op == "scaled_dot_product_attention"]
    assert not any(call.op in ("softmax", "matmul") for call in rewritten.calls)
    return rewritten, attention


def test_products_with_a_softmax_between_are_one_call():
    attention = Attention()
    _, call = joined(attention.program(attention.scores()))
    assert call.arg("scale") == 0.5
    assert call.arg("attn_mask") is None


def test_scores_that_nothing_scales_have_a_scale_of_one():
    attention = Attention()
    _, call = joined(attention.program(attention.scores(scale=None)))
    assert call.arg("scale") == 1.0, "the default would be by the width of heads"


def test_scores_are_divided():
    attention = Attention()
    scores = attention.change("div", input=attention.scores(), other=4.0)
    _, call = joined(attention.program(scores))
    assert call.arg("scale") == 0.125


def test_keys_that_a_mask_leaves_out():
    attention = Attention()
    mask = attention.mask(5, 7)
    scores = attention.change("masked_fill", input=attention.scores(), mask=mask, value=-inf)
    program, call = joined(attention.program(scores))
    assert program.type_of(call.arg("attn_mask").name).dtype == "bool"


@pytest.mark.parametrize("is_first", [True, False])
def test_keys_that_a_condition_keeps(is_first):
    attention = Attention()
    mask, scores = attention.mask(2, 1, 5, 7), attention.scores()
    sides = {"input": scores, "other": -1e30} if is_first else {"input": -1e30, "other": scores}
    joined(attention.program(attention.change("where", condition=mask, **sides)))


def triangle(attention, rows, columns, diagonal=0):
    """True on and below the diagonal, as programs make it."""
    rows, columns = (
        attention.change("unsqueeze", input=attention.change("arange", end=size), dim=dim)
        for size, dim in ((rows, 1), (columns, 0))
    )
    return attention.change(
        "ge", input=rows, other=attention.change("sub", input=columns, other=diagonal)
    )


def test_a_triangle_that_no_input_decides_is_causal():
    attention = Attention()
    keep = triangle(attention, 5, 7)
    scores = attention.change("where", condition=keep, input=attention.scores(), other=-inf)
    _, call = joined(attention.program(scores))
    assert call.arg("is_causal")
    assert call.arg("attn_mask") is None


def test_a_triangle_that_is_added_is_causal():
    attention = Attention()
    full = attention.change("full", size=(5, 7), fill_value=-inf)
    added = attention.change("triu", input=full, diagonal=1)
    scores = attention.change("add", input=attention.scores(), other=added)
    _, call = joined(attention.program(scores))
    assert call.arg("is_causal")


@pytest.mark.parametrize("diagonal", [-1, 1])
def test_another_triangle_is_a_mask(diagonal):
    attention = Attention()
    keep = triangle(attention, 5, 7, diagonal)
    scores = attention.change("where", condition=keep, input=attention.scores(), other=-inf)
    _, call = joined(attention.program(scores))
    assert not call.arg("is_causal")
    assert call.arg("attn_mask") is not None


def test_a_triangle_with_a_bias_is_a_mask():
    attention = Attention()
    full = attention.change("full", size=(5, 7), fill_value=0.5)
    scores = attention.change("add", input=attention.scores(), other=full)
    keep = triangle(attention, 5, 7)
    scores = attention.change("where", condition=keep, input=scores, other=-inf)
    _, call = joined(attention.program(scores))
    assert not call.arg("is_causal")


def test_a_triangle_among_the_inputs_is_a_mask():
    attention = Attention()
    mask = attention.builder.input(TensorType((5, 7), "bool"), Init("randint", 0, 2))
    keep = attention.change("bitwise_and", input=mask, other=triangle(attention, 5, 7))
    scores = attention.change("where", condition=keep, input=attention.scores(), other=-inf)
    _, call = joined(attention.program(scores))
    assert not call.arg("is_causal")


def test_a_fill_may_be_a_tensor_that_the_program_makes():
    attention = Attention()
    mask, scores = attention.mask(5, 7), attention.scores()
    fill = attention.change("full", size=(), fill_value=-inf)
    scores = attention.change("where", condition=mask, input=scores, other=fill)
    joined(attention.program(scores))


def test_a_row_without_keys_has_equal_shares_where_the_fill_is_finite():
    attention = Attention()
    mask = attention.builder.input(TensorType((5, 7), "bool"), Init("ones"))
    scores = attention.change("masked_fill", input=attention.scores(), mask=mask, value=-1e9)
    program, _ = joined(attention.program(scores))
    inputs = make_inputs(program, 3)
    [result] = run(program, inputs)
    torch.testing.assert_close(result, inputs[2].mean(-2, keepdim=True).expand(result.shape))


def test_a_bias_and_masks_are_one_mask():
    attention = Attention()
    bias = attention.builder.input(TensorType((3, 5, 7)))
    scores = attention.change("add", input=bias, other=attention.scores())
    for shape in ((5, 7), (2, 1, 1, 7)):
        mask = attention.mask(*shape)
        scores = attention.change("masked_fill", input=scores, mask=mask, value=-inf)
    program, call = joined(attention.program(scores))
    assert program.type_of(call.arg("attn_mask").name).dtype == "float32"


@pytest.mark.parametrize("shape", [(), (7,), (1,), (5, 1), (2, 1, 1, 7)])
@pytest.mark.parametrize("dtype", ["float32", "bool"])
def test_masks_of_any_shape_that_repeats_no_score(shape, dtype):
    attention = Attention()
    bias = attention.builder.input(TensorType(shape, dtype))
    joined(attention.program(attention.change("add", input=attention.scores(), other=bias)))


def test_biases_of_booleans_are_added_as_numbers():
    attention = Attention()
    scores = attention.scores()
    for _ in range(2):
        bias = attention.builder.input(TensorType((5, 7), "bool"), Init("randint", 0, 2))
        scores = attention.change("add", input=scores, other=bias)
    joined(attention.program(scores))


def test_a_bias_is_added_before_a_number_masks():
    attention = Attention()
    bias = attention.builder.input(TensorType((5, 7)))
    scores = attention.change("add", input=attention.scores(), other=bias)
    mask = attention.builder.input(TensorType((5, 7), "bool"), Init("ones"))
    joined(attention.program(attention.change("masked_fill", input=scores, mask=mask, value=-1e9)))


def test_a_factor_of_heads_multiplies_the_query():
    attention = Attention()
    weight = attention.builder.input(TensorType((3, 1, 1)))
    scores = attention.change("mul", input=attention.scores(), other=weight)
    joined(attention.program(scores))


def test_batches_of_one_dimension():
    attention = Attention(shapes=((6, 5, 8), (6, 7, 8), (6, 7, 4)))
    builder = attention.builder
    [turned] = builder.call("transpose", input=attention.key, dim0=1, dim1=2)
    [scores] = builder.call("bmm", input=attention.query, mat2=turned)
    [shares] = builder.call("softmax", input=scores, dim=2)
    joined(builder.program(builder.call("bmm", input=shares, mat2=attention.value)))


def masked(attention, value):
    mask = attention.mask(5, 7)
    return attention.change("masked_fill", input=attention.scores(), mask=mask, value=value)


def scaled_after_a_mask(attention):
    return attention.change("mul", input=masked(attention, -inf), other=2.0)


def masked_twice(attention):
    mask = attention.mask(5, 7)
    return attention.change("masked_fill", input=masked(attention, -1e9), mask=mask, value=-1e9)


def masked_before_a_bias(attention):
    bias = attention.builder.input(TensorType((5, 7)))
    return attention.change("add", input=masked(attention, -1e9), other=bias)


def repeated_by_a_mask(attention):
    """One score for each row, and a bias for each key."""
    bias = attention.builder.input(TensorType((5, 7)))
    return attention.change("add", input=attention.scores(), other=bias)


def scaled_by_keys(attention):
    factor = attention.builder.input(TensorType((7,)))
    return attention.change("mul", input=attention.scores(), other=factor)


@pytest.mark.parametrize(
    "scores",
    [
        pytest.param(lambda a: masked(a, -1e4), id="a fill that leaves something of scores"),
        pytest.param(lambda a: masked(a, 0.0), id="a fill that is no mask"),
        pytest.param(masked_twice, id="two numbers that mask"),
        pytest.param(masked_before_a_bias, id="a bias after a number that masks"),
        pytest.param(scaled_after_a_mask, id="scaled after a mask"),
        pytest.param(scaled_by_keys, id="a factor for each key"),
        pytest.param(lambda a: a.change("relu", input=a.scores()), id="another function"),
    ],
)
def test_other_scores_stay(scores):
    attention = Attention()
    program = attention.program(scores(attention))
    assert join_attention(program) is program


def test_scores_that_a_bias_repeats_stay():
    attention = Attention(shapes=(Q, (2, 3, 1, 8), V))
    program = attention.program(repeated_by_a_mask(attention))
    assert join_attention(program) is program


def test_scores_that_somebody_reads_stay():
    attention = Attention()
    scores = attention.scores()
    program = attention.program(scores, scores)
    assert join_attention(program) is program


def test_a_softmax_over_queries_stays():
    attention = Attention()
    program = attention.program(attention.scores(), dim=-2)
    assert join_attention(program) is program


def test_wide_heads_stay():
    width = WIDE_HEAD + 1
    attention = Attention(shapes=((2, 3, 5, width), (2, 3, 7, width), V))
    program = attention.program(attention.scores())
    assert join_attention(program) is program
