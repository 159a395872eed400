"""For each rule: programs that it rewrites, and near ones that it must leave alone."""

from collections.abc import Callable
from math import nan
from typing import Any

from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.program import Init, Program, Ref

Body = Callable[..., Any]


class Calls:
    """`c.relu(input=x)` appends a call and returns its result, or results."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder

    def __getattr__(self, op: str) -> Callable[..., Any]:
        def call(**values: Any) -> Any:
            made = self.builder.call(op, **values)
            return made[0] if len(made) == 1 else made

        return call

    def diag(self, entries: Ref, **place: int) -> Ref:
        return self.builder.call("aten.diag_embed.default", self=entries, **place)[0]


def program(body: Body, *shapes: tuple[int, ...], dtype: str = "float32") -> Program:
    """What `body(calls, *inputs)` returns; variances and weights alike are positive draws where
    the shape's name says so."""
    builder = Builder()
    inputs = [builder.input(TensorType(shape, dtype), Init("randn")) for shape in shapes]
    made = body(Calls(builder), *inputs)
    return builder.program(list(made) if isinstance(made, tuple | list) else [made])


def normed(body: Body, *shapes: tuple[int, ...], channels: int) -> Program:
    """As `program`, with a running mean and a positive running variance as the last inputs."""
    builder = Builder()
    inputs = [builder.input(TensorType(shape)) for shape in shapes]
    inputs.append(builder.input(TensorType((channels,))))
    inputs.append(builder.input(TensorType((channels,)), Init("rand", 0.5, 1.5)))
    return builder.program([body(Calls(builder), *inputs)])


M, I = (6, 8), (2, 4, 10, 12)  # noqa: E741
X, W, B = (64, 48), (96, 48), (96,)

REWRITTEN: list[tuple[str, Program]] = [
    ("neutral_number", program(lambda c, x: c.tanh(input=c.mul(input=x, other=1.0)), M)),
    ("neutral_number", program(lambda c, x: c.exp(input=c.sub(input=x, other=0)), M)),
    ("neutral_number", program(lambda c, x: c.exp(input=c.pow(input=x, exponent=1)), M)),
    ("idle_activation", program(lambda c, x: c.relu(input=c.square(input=x)), M)),
    ("idle_activation", program(lambda c, x: c.abs(input=c.sigmoid(input=x)), M)),
    ("nested_clamp", program(lambda c, x: c.clamp(
        input=c.clamp(input=x, min=-1.0, max=2.0), min=-2.0, max=0.5), M)),
    ("nested_clamp", program(lambda c, x: c.relu6(input=c.clamp(input=x, max=3.0)), M)),
    ("settled_clamp", program(lambda c, x: c.clamp(input=c.exp(input=x), min=0.0, max=0.0), M)),
    ("settled_clamp", program(lambda c, x: c.clamp(input=c.exp(input=x), min=2.0, max=0.5), M)),
    ("idle_dropout", program(lambda c, x: c.exp(input=c.dropout(input=x, training=False)), M)),
    ("double_negation", program(lambda c, x: c.exp(input=c.neg(input=c.neg(input=x))), M)),
    ("idle_cast", program(lambda c, x: c.exp(
        input=c.to_dtype(input=c.to_dtype(input=x, dtype="float64"), dtype="float32")), M)),
    ("single_element", program(lambda c, x: c.exp(input=c.mean(input=x, dim=1)), (6, 1))),
    ("single_element", program(lambda c, x: c.exp(input=c.max(input=x, dim=1)[0]), (6, 1))),
    ("single_element", program(lambda c, x: c.exp(
        input=c.logsumexp(input=x, dim=(1,), keepdim=True)), (6, 1))),
    ("single_element", program(lambda c, x: c.norm(input=x, dim=(1,)), (6, 1))),
    ("single_element", program(lambda c, x, y: c.mul(
        input=c.softmax(input=c.exp(input=x), dim=1), other=y), (6, 1), M)),
    ("idle_view", program(lambda c, x: c.exp(input=c.squeeze(
        input=c.unsqueeze(input=c.relu(input=x), dim=1), dim=1)), M)),
    ("idle_view", program(lambda c, x: c.exp(input=c.permute(
        input=c.permute(input=x, dims=(1, 2, 0)), dims=(2, 0, 1))), (2, 3, 4))),
    ("idle_copy", program(lambda c, x: c.exp(input=c.repeat(input=x, repeats=(1, 1))), M)),
    ("idle_copy", program(lambda c, x: c.exp(input=c.pad(input=x, pad=(0, 0))), M)),
    ("double_flip", program(lambda c, x: c.exp(input=c.flip(
        input=c.flip(input=x, dims=(1,)), dims=(-1,))), M)),
    ("rejoined_pieces", program(lambda c, x: c.exp(input=c.cat(
        tensors=c.chunk(input=x, chunks=2, dim=1), dim=-1)), M)),
    ("idle_pool", program(lambda c, x: c.exp(
        input=c.adaptive_avg_pool2d(input=x, output_size=(10, 12))), I)),
    ("merged_numbers", program(lambda c, x: c.div(input=c.mul(input=x, other=3.0), other=2), M)),
    ("merged_numbers", program(lambda c, x: c.sub(input=c.add(input=x, other=3.0), other=2), M)),
    ("own_multiple", program(lambda c, x: c.add(input=c.mul(input=x, other=0.5), other=x), M)),
    ("own_multiple", program(lambda c, x: c.add(input=x, other=x), M)),
    ("folded_scale", program(lambda c, x, w, b: c.mul(
        input=c.conv2d(input=x, weight=w, bias=b), other=0.5),
        (2, 4, 40, 40), (3, 4, 3, 3), (3,))),
    ("folded_scale", program(lambda c, x, w, s: c.mul(
        input=c.conv_transpose2d(input=x, weight=w, groups=2), other=s),
        (2, 4, 40, 40), (4, 3, 3, 3), (6, 1, 1))),
    ("folded_scale", normed(lambda c, x, w, b, mean, var: c.batch_norm(
        input=c.conv2d(input=x, weight=w, bias=b), running_mean=mean, running_var=var),
        (2, 4, 30, 30), (6, 4, 3, 3), (6,), channels=6)),
    ("folded_scale", normed(lambda c, x, w, b, s, t, mean, var: c.batch_norm(
        input=c.linear(input=x, weight=w, bias=b), running_mean=mean, running_var=var,
        weight=s, bias=t), (512, 8), (6, 8), (6,), (6,), (6,), channels=6)),
    ("cancelled_shift", program(lambda c, x, y: c.softmax(
        input=c.add(input=x, other=y), dim=1), M, (6, 1))),
    ("cancelled_shift", program(lambda c, x, w, b: c.instance_norm(
        input=c.conv2d(input=x, weight=w, bias=b)), I, (3, 4, 3, 3), (3,))),
    ("cancelled_shift", program(lambda c, x, y: c.layer_norm(
        input=c.sub(input=x, other=y), normalized_shape=(8,)), M, ())),
    ("mean_of_norm", program(lambda c, x, w, b: c.mean(input=c.group_norm(
        input=x, num_groups=2, weight=w, bias=b), dim=(2, 3)), I, (4,), (4,))),
    ("mean_of_norm", program(lambda c, x, w: c.mean(input=c.group_norm(
        input=x, num_groups=2, weight=w), dim=(1, 2, 3)), I, (4,))),
    ("mean_of_norm", program(lambda c, x: c.adaptive_avg_pool2d(
        input=c.group_norm(input=x, num_groups=1), output_size=(1, 1)), I)),
    ("diagonal_product", program(lambda c, a, y: c.matmul(input=c.diag(a), other=y), (6,), M)),
    ("diagonal_product", program(lambda c, a, y: c.matmul(input=y, other=c.diag(a)), (8,), M)),
    ("diagonal_product", program(lambda c, a, y: c.matmul(
        input=y, other=c.diag(a)), (3, 5), (3, 5, 5))),
    ("diagonal_product", program(lambda c, a, y: c.matmul(
        input=c.diag(a), other=y), (5,), (3, 5, 5))),
    ("sum_of_product", program(lambda c, x, w, b: c.sum(
        input=c.linear(input=x, weight=w, bias=b), dim=1, keepdim=True), X, W, B)),
    ("sum_of_product", program(lambda c, x, w, b: c.mean(
        input=c.linear(input=x, weight=w, bias=b), dim=1), (4, 32, 48), W, B)),
    ("sum_of_product", program(lambda c, x, w, b, y: c.mean(input=c.sub(input=c.div(
        input=c.linear(input=x, weight=w, bias=b), other=2), other=y), dim=-1), X, W, B, B)),
    ("sum_of_product", program(lambda c, x, y: c.sum(
        input=c.matmul(input=x, other=y), dim=(0, 2)), (4, 16, 24), (24, 16))),
    ("sum_of_product", program(lambda c, x, y, z: c.sum(
        input=c.addmm(input=z, mat1=x, mat2=y), dim=0), X, (48, 16), (16,))),
    ("sum_of_outer_product", program(lambda c, x, y: c.sum(input=c.mul(
        input=x, other=y), dim=1), (16, 12, 1), (1, 12, 20))),
    ("sum_of_outer_product", program(lambda c, x, y: c.mean(input=c.mul(
        input=x, other=y), dim=-1), (3, 1, 16, 12), (3, 20, 1, 12))),
    ("pool_of_linear", program(lambda c, x, w, b: c.avg_pool1d(input=c.unsqueeze(
        input=c.linear(input=x, weight=w, bias=b), dim=1), kernel_size=4, stride=4), X, W, B)),
    ("pool_of_linear", program(lambda c, x, w: c.avg_pool1d(
        input=c.linear(input=x, weight=w), kernel_size=5, stride=3, padding=2), X, W)),
    ("sum_of_convolution", program(lambda c, x, w, b: c.mean(
        input=c.conv_transpose2d(input=x, weight=w, bias=b, stride=2, padding=1,
                                 output_padding=1), dim=(2, 3)), I, (4, 6, 3, 3), (6,))),
    ("sum_of_convolution", program(lambda c, x, w, b: c.sum(
        input=c.conv3d(input=x, weight=w, bias=b, padding=1), dim=2),
        (2, 3, 8, 6, 7), (5, 3, 3, 3, 3), (5,))),
    ("sum_of_convolution", program(lambda c, x, w, b: c.mean(
        input=c.mul(input=c.conv_transpose3d(input=x, weight=w, bias=b, padding=1), other=2.0),
        dim=(2,), keepdim=True), (2, 3, 8, 6, 7), (3, 5, 3, 3, 3), (5,))),
    ("sum_of_convolution", program(lambda c, x, w: c.adaptive_avg_pool2d(
        input=c.conv2d(input=x, weight=w, groups=2, stride=2, dilation=2), output_size=1),
        (2, 4, 20, 22), (64, 2, 3, 3))),
    ("sum_of_convolution", program(lambda c, x, w, b: c.sum(
        input=c.conv2d(input=x, weight=w, bias=b, padding=1), dim=1),
        I, (16, 4, 3, 3), (16,))),
    ("pool_of_convolution", program(lambda c, x, w, b: c.avg_pool2d(
        input=c.conv2d(input=x, weight=w, bias=b, padding=1), kernel_size=4, stride=4),
        (2, 4, 22, 20), (6, 4, 3, 3), (6,))),
    ("pool_of_convolution", program(lambda c, x, w, b, s: c.avg_pool3d(
        input=c.mul(input=c.conv_transpose3d(
            input=x, weight=w, bias=b, stride=2, padding=1), other=s), kernel_size=2, stride=2),
        (2, 3, 8, 6, 7), (3, 5, 3, 3, 3), (5,), ())),
    ("pool_of_convolution", program(lambda c, x, w: c.avg_pool2d(
        input=c.conv2d(input=x, weight=w, groups=2), kernel_size=3, stride=2),
        (2, 4, 22, 20), (6, 2, 1, 1))),
    ("pool_of_convolution", program(lambda c, x, w: c.avg_pool2d(
        input=c.conv_transpose2d(input=x, weight=w, stride=2, padding=1, output_padding=1),
        kernel_size=2, stride=2), I, (4, 6, 4, 3))),
    ("merged_pools", program(lambda c, x: c.max_pool2d(input=c.max_pool2d(
        input=x, kernel_size=3, stride=2), kernel_size=2, stride=2), (2, 3, 21, 18))),
    ("merged_pools", program(lambda c, x: c.avg_pool1d(input=c.avg_pool1d(
        input=x, kernel_size=3, stride=3), kernel_size=2, stride=1), (2, 3, 23))),
]  # fmt: skip

UNTOUCHED: list[tuple[str, Program]] = [
    ("neutral_number", program(lambda c, x: c.mul(input=x, other=1.5), M)),
    ("neutral_number", program(lambda c, x: c.div(
        input=c.exp(input=x), other=1, rounding_mode="floor"), M)),
    ("neutral_number", program(lambda c, x: c.mul(input=x, other=1), M)),  # x itself is no result
    ("idle_activation", program(lambda c, x: c.relu(input=c.tanh(input=x)), M)),
    ("idle_activation", program(lambda c, x, y: c.abs(
        input=c.pow(input=x, exponent=y)), M, M)),
    ("nested_clamp", program(lambda c, x: c.clamp(
        input=c.clamp(input=x, min=2.0, max=1.0), min=0.0), M)),
    ("settled_clamp", program(lambda c, x: c.clamp(
        input=c.clamp(input=x, max=0.5), min=0.0, max=1.0), M)),
    ("settled_clamp", program(lambda c, x: c.clamp(input=x, min=nan, max=1.0), M)),
    ("idle_dropout", program(lambda c, x: c.dropout(input=x, p=0.5), M)),
    ("double_negation", program(lambda c, x: c.neg(input=c.abs(input=c.neg(input=x))), M)),
    ("idle_cast", program(lambda c, x: c.exp(input=c.to_dtype(
        input=c.to_dtype(input=x, dtype="float16"), dtype="float32")), M)),
    ("single_element", program(lambda c, x: c.exp(input=c.mean(input=x, dim=0)), (6, 1))),
    ("single_element", program(lambda c, x: c.std(input=x, dim=1), (6, 1))),
    ("idle_view", program(lambda c, x: c.exp(input=c.reshape(
        input=c.permute(input=x, dims=(1, 0)), shape=(6, 8))), M)),
    ("idle_view", program(lambda c, x: c.exp(input=c.permute(
        input=c.permute(input=x, dims=(1, 2, 0)), dims=(1, 2, 0))), (4, 4, 4))),
    ("idle_copy", program(lambda c, x: c.exp(input=c.roll(input=x, shifts=(1,), dims=(1,))), M)),
    ("double_flip", program(lambda c, x: c.flip(input=c.flip(input=x, dims=(0,)), dims=(1,)), M)),
    ("rejoined_pieces", program(lambda c, x: c.cat(
        tensors=c.chunk(input=x, chunks=2, dim=1)[::-1], dim=1), M)),
    ("rejoined_pieces", program(lambda c, x: c.cat(
        tensors=c.chunk(input=x, chunks=2, dim=1), dim=0), M)),
    ("idle_pool", program(lambda c, x: c.avg_pool2d(input=x, kernel_size=1, stride=2), I)),
    ("merged_numbers", program(lambda c, x: c.mul(input=c.add(input=x, other=3.0), other=2), M)),
    ("merged_numbers", program(lambda c, x: c.div(input=2.0, other=c.mul(input=x, other=3)), M)),
    ("merged_numbers", program(lambda c, x: c.mul(
        input=c.mul(input=x, other=1e-25), other=1e-25), M)),
    ("own_multiple", program(lambda c, x: c.sub(input=c.mul(input=x, other=1.0), other=x), M)),
    ("own_multiple", program(lambda c, x, y: c.add(
        input=c.mul(input=x, other=2.0), other=y), M, M)),
    ("folded_scale", program(lambda c, x, w, s: c.mul(
        input=c.conv2d(input=x, weight=w), other=s), (2, 4, 40, 40), (3, 4, 3, 3), (38, 38))),
    ("folded_scale", program(lambda c, x, w: (lambda y: (c.mul(input=y, other=2.0), y))(
        c.conv2d(input=x, weight=w)), (2, 4, 40, 40), (3, 4, 3, 3))),
    ("cancelled_shift", program(lambda c, x: c.softmax(
        input=c.add(input=c.argmax(input=x, dim=1), other=1.5), dim=0), M)),
    ("folded_scale", program(lambda c, x, w: c.mul(
        input=c.linear(input=x, weight=w), other=2.0), (64, 48), (96, 48))),  # too many weights
    ("cancelled_shift", program(lambda c, x, y: c.softmax(
        input=c.add(input=x, other=y), dim=1), M, (8,))),
    ("cancelled_shift", program(lambda c, x, w, b: c.group_norm(
        input=c.conv2d(input=x, weight=w, bias=b), num_groups=2), I, (4, 4, 3, 3), (4,))),
    ("cancelled_shift", program(lambda c, x, y: c.layer_norm(
        input=c.mul(input=x, other=y), normalized_shape=(8,)), M, ())),
    ("mean_of_norm", program(lambda c, x: c.mean(
        input=c.group_norm(input=x, num_groups=2), dim=(2,)), I)),
    ("mean_of_norm", program(lambda c, x: c.mean(
        input=c.group_norm(input=x, num_groups=4), dim=(2, 3)), I)),
    ("mean_of_norm", program(lambda c, x: c.mean(
        input=c.relu(input=c.group_norm(input=x, num_groups=2)), dim=(2, 3)), I)),
    ("diagonal_product", program(lambda c, a, y: c.matmul(
        input=c.diag(a, offset=1), other=y), (5,), (6, 2))),
    ("diagonal_product", program(lambda c, a, y: c.matmul(
        input=c.diag(a), other=y), (5,), (5,))),
    ("sum_of_product", program(lambda c, x, w, b: c.sum(input=c.relu(
        input=c.linear(input=x, weight=w, bias=b)), dim=1), X, W, B)),
    ("sum_of_product", program(lambda c, x, w, s: c.sum(input=c.mul(
        input=c.linear(input=x, weight=w), other=s), dim=1), X, W, B)),
    ("sum_of_product", program(lambda c, x, w: (lambda y: (y, c.sum(input=y, dim=1)))(
        c.linear(input=x, weight=w)), X, W)),
    ("sum_of_outer_product", program(lambda c, x, y: c.sum(input=c.mul(
        input=x, other=y), dim=1), (16, 12, 20), (1, 12, 20))),
    ("pool_of_linear", program(lambda c, x, w: c.avg_pool1d(input=c.unsqueeze(input=c.relu(
        input=c.linear(input=x, weight=w)), dim=1), kernel_size=4, stride=4), X, W)),
    ("sum_of_convolution", program(lambda c, x, w: c.mean(
        input=c.relu(input=c.conv2d(input=x, weight=w)), dim=(2, 3)), I, (6, 4, 3, 3))),
    ("sum_of_convolution", program(lambda c, x, w, s: c.mean(input=c.mul(
        input=c.conv2d(input=x, weight=w), other=s), dim=(2, 3)), I, (6, 4, 3, 3), (8, 10))),
    ("pool_of_convolution", program(lambda c, x, w: c.avg_pool2d(
        input=c.conv1d(input=x, weight=w), kernel_size=2, stride=2), (2, 4, 22), (6, 4, 3))),
    ("pool_of_convolution", program(lambda c, x, w: c.avg_pool1d(
        input=c.conv1d(input=x, weight=w, padding="same"), kernel_size=2, stride=2),
        (2, 4, 22), (6, 4, 3))),
    ("pool_of_convolution", program(lambda c, x, w: c.avg_pool2d(
        input=c.conv2d(input=x, weight=w, stride=2), kernel_size=2, stride=2),
        (2, 4, 22, 20), (6, 4, 3, 3))),
    ("pool_of_convolution", program(lambda c, x, w: c.avg_pool2d(
        input=c.conv2d(input=x, weight=w), kernel_size=2, stride=2, padding=1),
        (2, 4, 22, 20), (6, 4, 3, 3))),
    ("merged_pools", program(lambda c, x: c.max_pool2d(input=c.max_pool2d(
        input=x, kernel_size=3, stride=2, padding=1), kernel_size=2, stride=2), (2, 3, 21, 18))),
    ("merged_pools", program(lambda c, x: c.avg_pool1d(input=c.avg_pool1d(
        input=x, kernel_size=3, stride=2), kernel_size=2, stride=2), (2, 3, 23))),
]  # fmt: skip
"""A `mul(x, 1)` whose operand is the program's input stays: the result is not the caller's memory.
"""
