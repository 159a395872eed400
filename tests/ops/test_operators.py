"""Every operator record against PyTorch, by the sample calls of `samples/<family>.py`."""

import math
from collections import Counter
from importlib import import_module

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import Sample
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from kernelwright.core.seed import derive
from kernelwright.ops.operator import (
    DTYPE_BYTES,
    REQUIRED,
    Bound,
    Domain,
    Layout,
    Numerics,
    Operator,
    ParameterKind,
    TensorType,
)
from kernelwright.ops.registry import FAMILIES, by_aten, by_call, operators
from kernelwright.ops.rules import promote

MODULES = {family: import_module(f"samples.{family}") for family in FAMILIES}
SAMPLES = [sample for module in MODULES.values() for sample in module.SAMPLES]
BAD = [sample for module in MODULES.values() for sample in module.BAD]

MOVES_ONLY = ("shape", "indexing", "creation", "scatter")
"""Families that compute nothing: 0 FLOPs."""
COUNTED = [
    s
    for s in SAMPLES
    if operators()[s.op].family in ("matrix", "convolution", "attention")
    and operators()[s.op].numerics is Numerics.CONTRACTION
    and all(t.rank > 1 for t in s.args[:2])
]
"""Calls torch.utils.flop_counter has a formula for: it takes products with vectors for free."""
LAID_OUT = [
    s
    for s in SAMPLES
    if operators()[s.op].family in ("pointwise", "normalization", "pooling", "convolution")
    and any(isinstance(t, TensorType) and t.layout is Layout.CHANNELS_LAST for t in s.args)
]
"""Calls whose operands and results may be channels-last."""
TOLERANCE = {"float64": 1e-4, "float32": 1e-4, "float16": 4e-3, "bfloat16": 3e-2}
"""rms error relative to the rms of the fp64 result."""

FORMATS = {
    "contiguous": torch.contiguous_format,
    "channels_last": torch.channels_last,
    ("channels_last", 5): torch.channels_last_3d,
}

each_sample = pytest.mark.parametrize("sample", SAMPLES, ids=str)


# Calling


def bind(sample: Sample) -> tuple[Operator, Bound]:
    operator = operators()[sample.op]
    bound = {p.name: p.default for p in operator.params}
    bound |= dict(zip(bound, sample.args, strict=False)) | sample.attributes
    missing = [name for name, value in bound.items() if value is REQUIRED]
    assert not missing, f"{sample} lacks {missing}"
    return operator, bound


def memory_format(name: str, rank: int) -> torch.memory_format:
    return FORMATS.get((name, rank), FORMATS[name])


def draw(made: TensorType, domain: Domain, bound: int, seed: int) -> torch.Tensor:
    """A tensor of `made` with values from `domain`."""
    rng = torch.Generator().manual_seed(seed)
    normal = torch.randn(made.shape, generator=rng, dtype=torch.float64)
    uniform = torch.rand(made.shape, generator=rng, dtype=torch.float64)
    if domain is Domain.INDEX:
        values = torch.floor(uniform * bound)
    elif domain is Domain.SIGN:
        values = torch.where(uniform < 0.5, -1.0, 1.0)
    elif domain is Domain.UNIT:
        values = 0.02 + 0.96 * uniform
    elif domain is Domain.LOG_PROB:
        values = torch.log_softmax(normal, dim=-1)
    elif made.dtype == "bool" or domain is Domain.BOOL:
        values = (uniform < 0.5).double()
    elif domain in (Domain.POSITIVE, Domain.NONZERO):
        values = 0.3 + 2 * uniform
        if domain is Domain.NONZERO:
            values = torch.copysign(values, normal)
    else:
        values = normal
    if made.dtype.startswith(("int", "uint")) and domain is not Domain.INDEX:
        values = torch.ceil(values * 3) if domain is Domain.POSITIVE else torch.round(values * 3)
        values = torch.where(values == 0, 1.0, values) if domain is Domain.NONZERO else values
        values = values.abs() if made.dtype == "uint8" else values
    result = values.to(getattr(torch, made.dtype))
    return result.contiguous(memory_format=memory_format(made.layout.value, made.rank))


def draw_all(operator: Operator, bound: Bound, seed: int) -> dict[str, object]:
    """The call's parameters with tensors in place of types."""
    values: dict[str, object] = {}
    for name, value in bound.items():
        domain = operator.domain(name, bound)
        limit = operator.index_bound(bound) if domain is Domain.INDEX else 0
        if isinstance(value, TensorType):
            value = draw(value, domain, limit, derive(seed, name))
        elif isinstance(value, tuple):
            value = tuple(
                draw(v, domain, limit, derive(seed, name, i)) if isinstance(v, TensorType) else v
                for i, v in enumerate(value)
            )
        values[name] = value
    return values


def call(operator: Operator, values: dict[str, object]) -> tuple[torch.Tensor, ...]:
    """Call PyTorch as canonical text does: leading tensors by position, the rest by keyword."""
    args: list[object] = []
    kwargs: dict[str, object] = {}
    for index, param in enumerate(operator.params):
        value = values[param.name]
        if value is param.default or (
            param.kind is ParameterKind.ATTRIBUTE and value == param.default
        ):
            continue
        if param.kind is not ParameterKind.ATTRIBUTE and len(args) == index:
            args.append(value)
        elif param.name == "dtype":
            kwargs["dtype"] = getattr(torch, str(value))
        elif param.name == "memory_format":
            kwargs["memory_format"] = memory_format(str(value), args[0].dim())
        else:
            kwargs[param.name] = value
    result = eval(operator.call, {"torch": torch, "F": F})(*args, **kwargs)
    return (result,) if isinstance(result, torch.Tensor) else tuple(result)


def run(sample: Sample, seed: int = 0) -> tuple[dict[str, object], tuple[torch.Tensor, ...]]:
    operator, bound = bind(sample)
    torch.manual_seed(seed)
    values = draw_all(operator, bound, seed)
    return values, call(operator, values)


def tensors_in(values: dict[str, object]) -> list[torch.Tensor]:
    sequences = [value if isinstance(value, tuple) else (value,) for value in values.values()]
    return [item for sequence in sequences for item in sequence if torch.is_tensor(item)]


def dtype_name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


# Coverage of the table


def test_every_operator_has_two_samples():
    counts = Counter(sample.op for sample in SAMPLES)
    assert [name for name in operators() if counts[name] < 2] == []


def test_every_family_has_calls_that_pytorch_refuses():
    assert [family for family, module in MODULES.items() if not module.BAD] == []


def test_parameters_are_keywords_of_the_callable():
    """Operators that share a callable must differ in parameters, or text could not tell them."""
    for name, sharing in by_call().items():
        signatures = {tuple(p.name for p in operator.params) for operator in sharing}
        assert len(signatures) == len(sharing), name


@pytest.mark.parametrize("overload", sorted(by_aten()))
def test_aten_overloads_exist_and_their_arguments_are_all_placed(overload):
    operator, (_, name, kind) = by_aten()[overload], overload.split(".")
    schema = getattr(getattr(torch.ops.aten, name), kind)._schema
    renames = operator.aten[overload]
    arguments = {argument.name: argument for argument in schema.arguments}
    assert set(renames) <= set(arguments), "renames an argument the schema lacks"
    params = {p.name: p for p in operator.params}
    placed = {renames.get(name, name): argument for name, argument in arguments.items()}
    lost = [
        name for name in set(placed) - set(params) - {""} if not placed[name].has_default_value()
    ]
    assert lost == [], "arguments without a parameter must have a default"
    required = {name for name, param in params.items() if param.default is REQUIRED}
    filled = set(operator.canonical(overload, {})) if operator.canonical else set()
    assert required <= set(placed) | filled, "parameters that no argument fills"


# Facts about calls


@each_sample
def test_types_are_what_pytorch_returns(sample):
    operator, bound = bind(sample)
    _, outputs = run(sample)
    expected = operator.types(bound)
    assert [(t.shape, t.dtype) for t in expected] == [
        (tuple(o.shape), dtype_name(o)) for o in outputs
    ]
    assert operator.num_outputs in (-1, len(outputs))


@pytest.mark.parametrize("sample", BAD, ids=str)
def test_types_refuse_what_pytorch_refuses(sample):
    operator, bound = bind(sample)
    with pytest.raises(ValueError, match=r"\w"):
        operator.types(bound)
    with pytest.raises((RuntimeError, TypeError, ValueError, IndexError, NotImplementedError)):
        run(sample)


def test_to_layout_makes_the_layout_it_says():
    for sample in MODULES["shape"].SAMPLES:
        if sample.op == "to_layout":
            operator, bound = bind(sample)
            (made,), (output,) = operator.types(bound), run(sample)[1]
            assert made.layout.value == sample.attributes["memory_format"]
            assert output.is_contiguous(memory_format=memory_format(made.layout.value, made.rank))


@pytest.mark.parametrize(
    ("exponent", "domain"),
    [(2, Domain.ANY), (3.0, Domain.ANY), (0.5, Domain.POSITIVE), (-1, Domain.POSITIVE)],
)
def test_only_fractional_and_negative_powers_need_positive_bases(exponent, domain):
    operator, bound = bind(Sample("pow", (TensorType((3,)), exponent), {}))
    assert operator.domain("input", bound) is domain


@each_sample
def test_flops_are_counted(sample):
    operator, bound = bind(sample)
    types = operator.types(bound)
    flops = operator.flops(bound, types)
    assert type(flops) is int
    if operator.family in MOVES_ONLY and operator.numerics is Numerics.EXACT:
        assert flops == 0
    elif operator.family == "pointwise":
        assert flops == types[0].numel
    else:
        assert flops > 0


@pytest.mark.parametrize("sample", COUNTED, ids=str)
def test_flops_equal_the_formulas_of_pytorch(sample):
    operator, bound = bind(sample)
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        run(sample)
    assert operator.flops(bound, operator.types(bound)) == counter.get_total_flops()


@each_sample
def test_bytes_moved_are_those_of_the_tensors(sample):
    operator, bound = bind(sample)
    values, outputs = run(sample)
    expected = sum(t.numel() * t.element_size() for t in (*tensors_in(values), *outputs))
    assert operator.bytes_moved(bound, operator.types(bound)) == expected


@each_sample
def test_results_are_finite_and_agree_with_float64(sample):
    """Inputs from the declared domains give finite results, which float64 confirms."""
    operator, _ = bind(sample)
    values, outputs = run(sample)
    for output in outputs:
        assert torch.isfinite(output).all()
    if operator.numerics is Numerics.RANDOM:
        return
    wide = {name: widened(value) for name, value in values.items()}
    for output, oracle in zip(outputs, call(operator, wide), strict=True):
        if not output.is_floating_point() or not output.numel():
            assert torch.equal(output, oracle)
            continue
        error = (output.double() - oracle).square().mean().sqrt().item()
        scale = oracle.double().square().mean().sqrt().item()
        assert error <= TOLERANCE[dtype_name(output)] * max(scale, 1e-30)


def widened(value):
    if isinstance(value, tuple):
        return tuple(widened(v) for v in value)
    if torch.is_tensor(value) and value.is_floating_point():
        return value.double()
    return "float64" if isinstance(value, str) and value in TOLERANCE else value


@pytest.mark.parametrize("sample", LAID_OUT, ids=str)
def test_layouts_are_those_eager_gives(sample):
    operator, bound = bind(sample)
    _, outputs = run(sample)
    for made, output in zip(operator.types(bound), outputs, strict=True):
        assert output.is_contiguous(memory_format=memory_format(made.layout.value, made.rank))


# Shape rules on random shapes

SHAPES = st.lists(st.integers(1, 3), max_size=4).map(tuple)


@given(SHAPES, SHAPES)
@settings(max_examples=200)
def test_binary_operators_broadcast_as_pytorch_does(left, right):
    def rule():
        return (
            operators()["add"]
            .types({"input": TensorType(left), "other": TensorType(right), "alpha": 1})[0]
            .shape
        )

    try:
        expected = torch.broadcast_shapes(left, right)
    except RuntimeError:
        with pytest.raises(ValueError, match="broadcast"):
            rule()
    else:
        assert rule() == tuple(expected)


OPERANDS = st.one_of(
    st.builds(TensorType, st.sampled_from([(), (2,)]), st.sampled_from(sorted(DTYPE_BYTES))),
    st.sampled_from([2, 2.5, True]),
)


@given(OPERANDS, OPERANDS)
@settings(max_examples=300)
def test_dtypes_promote_as_pytorch_does(left, right):
    def real(operand):
        if isinstance(operand, TensorType):
            return torch.zeros(operand.shape, dtype=getattr(torch, operand.dtype))
        return operand

    expected = torch.result_type(real(left), real(right))
    assert promote(left, right) == str(expected).removeprefix("torch.")


@given(
    st.sampled_from(["sum", "mean", "amax", "std", "logsumexp"]),
    st.lists(st.integers(2, 4), min_size=1, max_size=4),
    st.data(),
    st.booleans(),
)
@settings(max_examples=200)
def test_reductions_reduce_as_pytorch_does(name, shape, data, keepdim):
    dims = data.draw(st.lists(st.integers(-len(shape), len(shape) - 1), min_size=1, max_size=3))
    operator, bound = bind(
        Sample(name, (TensorType(tuple(shape)),), {"dim": tuple(dims), "keepdim": keepdim})
    )
    values = bound | {"input": torch.empty(shape, device="meta")}
    try:
        (expected,) = call(operator, values)
    except RuntimeError:
        with pytest.raises(ValueError, match=r"\w"):
            operator.types(bound)
    else:
        assert operator.types(bound)[0].shape == tuple(expected.shape)
        assert math.prod(expected.shape) <= math.prod(shape)
