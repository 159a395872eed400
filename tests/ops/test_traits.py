"""Traits say what PyTorch does: each is checked on calls, of the operators that have the trait and
of those that do not."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from test_operators import SAMPLES, call, run

from kernelwright.core.seed import derive
from kernelwright.ops.operator import Numerics, Operator, ParameterKind, TensorType
from kernelwright.ops.registry import names_with, operators
from kernelwright.ops.traits import Trait

SRC = Path(__file__).parents[2] / "src" / "kernelwright"
MOST_NAMES = 4
"""The most names of operators in one collection outside of `ops`."""
MOST_COMPARISONS = 124
"""The most comparisons with names of operators outside of `ops`. Each reads or writes the text of
this operator, or asks for a word that is an operator's name too. The number may only fall."""
FOREIGN = {
    "sandbox/guest/interpreter/libdevice_shim.py",  # functions of libdevice
    "teacher/text/expressions.py",  # functions of libdevice
    "verify/tasks/cases.py",  # parts of names of PyTorch functions
}
"""Modules that list other functions of the same names."""
CHOICES = {Trait.CHEAP}
"""Traits that say what is worth doing, and not what PyTorch computes: no test."""


def family(*names: str) -> list[Operator]:
    return [operator for operator in operators().values() if operator.family in names]


def function(operator: Operator):
    return eval(operator.call, {"torch": torch, "F": F})


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(derive(seed, "traits", *shape) % (1 << 31))
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def operands_of(operator: Operator) -> int:
    return sum(param.kind is not ParameterKind.ATTRIBUTE for param in operator.params)


def agrees(left: torch.Tensor, right: torch.Tensor) -> bool:
    return left.shape == right.shape and torch.allclose(left, right, equal_nan=True)


def calls(operator: Operator):
    """(input, results) of each sample of the operator with a floating-point input."""
    for sample in SAMPLES:
        if sample.op == operator.name:
            values, results = run(sample)
            x = values.get("input")
            if torch.is_tensor(x) and x.is_floating_point():
                yield x, results


def is_view(x: torch.Tensor, result: torch.Tensor) -> bool:
    return x.untyped_storage().data_ptr() == result.untyped_storage().data_ptr()


# Arithmetic


def binary():
    """Functions of two floating-point tensors, by name."""
    for operator in family("pointwise"):
        if operands_of(operator) == 2 and not operator.name.startswith(("bitwise", "masked")):
            yield operator.name, function(operator)


def test_sums_pass_through_additions_and_factors_through_scalings():
    x, y, u, v = (normal(5, 7, seed=seed) for seed in range(4))
    adding, scaling = set(), set()
    for name, f in binary():
        if not f(x, y).is_floating_point():
            continue
        if agrees(f(x + u, y + v), f(x, y) + f(u, v)):
            adding.add(name)
        elif agrees(f(x + u, y), f(x, y) + f(u, y)):
            scaling.add(name)
    assert adding == names_with(Trait.ADDS)
    assert scaling == names_with(Trait.SCALES)


def test_shifts_keep_the_sign_of_the_input():
    x, y = normal(5, 7), normal(5, 7, seed=1)
    adding = [(name, f) for name, f in binary() if name in names_with(Trait.ADDS)]
    shifting = {name for name, f in adding if agrees(f(x, y) - f(torch.zeros_like(x), y), x)}
    assert shifting == names_with(Trait.SHIFTS)


def test_a_neutral_number_changes_nothing_and_no_other_operator_has_one():
    x = normal(5, 7)
    for name, f in binary():
        numbers = [number for number in (0, 1, -1) if takes(f, x, number)]
        neutral = [number for number in numbers if torch.equal(f(x, number), x)]
        own = operators()[name].neutral
        assert neutral == ([] if own is None else [own]), name


def takes(f, x, number) -> bool:
    try:
        return f(x, number).is_floating_point()
    except (TypeError, RuntimeError):
        return False


def test_comparisons_of_order_and_of_equality():
    x, y = torch.tensor([1.0, 2.0, 2.0, 3.0]), torch.tensor([2.0, 2.0, 2.0, 1.0])
    equal, ordered = set(), set()
    for name, f in binary():
        result = f(x, y)
        if result.dtype == torch.bool and name not in names_with(Trait.READS_TRUTH):
            is_equality = torch.equal(result, x == y) or torch.equal(result, x != y)
            (equal if is_equality else ordered).add(name)
    assert equal == names_with(Trait.TESTS_EQUALITY)
    assert ordered == names_with(Trait.ORDERS)


def test_operators_that_ask_whether_a_value_is_zero():
    x = torch.tensor([0.0, 0.5, -2.0, torch.nan, 3.0, 0.0])
    y = torch.tensor([1.0, 0.0, torch.nan, 0.0, 7.0, 0.0])
    reading = set()
    for operator in family("pointwise", "reduction"):
        if operator.name in ("to_dtype", "clamp", "threshold") or operands_of(operator) > 2:
            continue
        operands = (x, y)[: operands_of(operator)]
        try:
            result = function(operator)(*operands)
            of_truths = function(operator)(*(operand != 0 for operand in operands))
        except (TypeError, RuntimeError):
            continue
        if torch.is_tensor(result) and torch.equal(result, of_truths):
            reading.add(operator.name)
    assert reading == names_with(Trait.READS_TRUTH)


def test_two_of_these_calls_undo_each_other():
    values = normal(5, 7), torch.arange(-9, 9), torch.tensor([True, False])
    undoing = set()
    for operator in family("pointwise"):
        if operands_of(operator) > 1 or len(operator.params) > 1:
            continue
        f = function(operator)
        twice = []
        for x in values:
            try:
                if (once := f(x)).dtype == x.dtype and not torch.equal(once, x):
                    twice.append(torch.equal(f(once), x))
            except RuntimeError:
                continue
        if twice and all(twice):
            undoing.add(operator.name)
    assert undoing == names_with(Trait.UNDOES_ITSELF)


def test_clamps_return_what_lies_within_their_limits():
    clamping, x = set(), torch.linspace(-10, 10, 201, dtype=torch.float64)
    for operator in family("pointwise"):
        if operands_of(operator) > 1 or operator.name in ("to_dtype", "bitwise_not"):
            continue
        own = [dict(s.attributes) for s in SAMPLES if s.op == operator.name and len(s.args) == 1]
        results = [function(operator)(x, **attributes) for attributes in own]
        if results and all(
            y.dtype == x.dtype and torch.equal(y, x.clamp(y.min(), y.max())) for y in results
        ):
            clamping.add(operator.name)
    assert clamping == names_with(Trait.CLAMPS)


def test_inputs_within_the_limits_are_returned_unchanged():
    inside = torch.linspace(0, 10, 201, dtype=torch.float64)
    for operator in family("pointwise"):
        if operands_of(operator) > 1 or operator.name in ("to_dtype", "threshold", "bitwise_not"):
            continue
        own = operator.unchanged
        if own is None:
            assert not torch.equal(function(operator)(inside), inside), operator.name
        if own is not None:
            attributes = {limit: 2.0 for limit in own if isinstance(limit, str)}
            low, high = (attributes.get(limit, limit) for limit in own)
            x = inside.clamp(low, high)
            assert torch.equal(function(operator)(x, **attributes), x), operator.name


# Products


def test_factors_are_what_a_product_sums_over():
    for operator in operators().values():
        is_product = operator.family == "matrix" and operator.numerics is Numerics.CONTRACTION
        assert bool(operator.factors) == is_product, operator.name
    for sample in SAMPLES:
        operator = operators()[sample.op]
        if not operator.factors or any(t.rank < 2 for t in sample.args[:2]):
            continue
        values, _ = run(sample)
        left, right = (values[name].shape[dim] for name, dim in operator.factors)
        assert left == right, sample


def test_products_that_torch_matmul_computes_too():
    shapes = {"mm": ((3, 4), (4, 5)), "bmm": ((2, 3, 4), (2, 4, 5)), "mv": ((3, 4), (4,))}
    shapes |= {"dot": ((4,), (4,)), "matmul": ((2, 3, 4), (4, 4)), "linear": ((3, 4), (4, 4))}
    computed = set()
    for name, sizes in shapes.items():
        a, b = (normal(*size) for size in sizes)
        if agrees(function(operators()[name])(a, b), torch.matmul(a, b)):
            computed.add(name)
    assert computed == names_with(Trait.MATMUL)
    added = names_with(Trait.MATRIX_PRODUCT) - computed - {"linear"}
    assert all("beta" in {p.name for p in operators()[name].params} for name in added)
    assert names_with(Trait.MATMUL) - names_with(Trait.MATRIX_PRODUCT) == {"dot"}


def test_a_third_operand_is_scaled_by_beta_and_not_read_at_beta_zero():
    scaled = {
        op.name for op in family("matrix") if {"alpha", "beta"} <= {p.name for p in op.params}
    }
    assert scaled == names_with(Trait.ADDS_OPERAND)
    for name in scaled:
        a, b = normal(2, 3, 4)[: 2 if name == "baddbmm" else None], normal(2, 4, 5)
        a, b = (a, b) if name == "baddbmm" else (a[0], b[0])
        c, f = normal(3, 5), function(operators()[name])
        c = c.expand(2, 3, 5) if name == "baddbmm" else c
        assert agrees(f(c, a, b, beta=2.0, alpha=3.0), 2.0 * c + 3.0 * (a @ b))
        assert agrees(f(c * torch.nan, a, b, beta=0.0), a @ b)


def test_the_bias_of_a_layer_lies_along_its_channels():
    layers = set()
    for sample in SAMPLES:
        operator = operators()[sample.op]
        if {"weight", "bias"} <= {p.name for p in operator.params} and operator.aten:
            is_layer = operator.numerics is Numerics.CONTRACTION
            assert is_layer == (operator.channel_dim is not None), operator.name
            values, (result, *_) = run(sample)
            bias = values.get("bias")
            if is_layer and torch.is_tensor(bias) and bias.dim() and result.dim() > 1:
                is_unbatched = operator.channel_dim == 1 and values["weight"].dim() > result.dim()
                if not is_unbatched:
                    assert result.shape[operator.channel_dim] == len(bias), sample
                layers.add(operator.name)
    assert layers == {op.name for op in operators().values() if op.channel_dim is not None}


def test_transposed_convolutions_have_weights_that_begin_with_the_inputs_channels():
    transposed = set()
    for operator in family("convolution"):
        spatial = operator.spatial
        x, weight = normal(2, 3, *(4,) * spatial), normal(3, 5, *(2,) * spatial)
        try:
            result = function(operator)(x, weight)
        except RuntimeError:
            continue
        assert result.shape[1] == 5
        assert result.shape[2] > x.shape[2]
        transposed.add(operator.name)
    assert transposed == names_with(Trait.TRANSPOSED)


# Reductions


def reduce(operator: Operator, x: torch.Tensor, **attributes) -> torch.Tensor:
    """The first result of a call along the last dimension, or of all where there is no choice."""
    names = {param.name for param in operator.params}
    if "output_size" in names:
        attributes |= {"output_size": 1}
    if "kernel_size" in names:
        attributes |= {"kernel_size": 2}
    if "scale_factor" in names:
        attributes |= {"scale_factor": 2.0}
    if "dim" in names:
        attributes |= {"dim": -1}
    result = function(operator)(x, **attributes)
    return result if torch.is_tensor(result) else result[0]


def test_sums_and_averages_are_linear():
    linear = set()
    for operator in family("reduction", "pooling"):
        spatial = next((int(c) for c in operator.name if c.isdigit()), 1)
        shape = (2, 3, *(4,) * spatial)
        x, u = normal(*shape), normal(*shape, seed=1)
        parts = [reduce(operator, value).double() for value in (x + u, x, u)]
        if agrees(parts[0], parts[1] + parts[2]):
            linear.add(operator.name)
    # Interpolation is a linear map too, but no sum over windows.
    linear -= {"interpolate"}
    assert linear == names_with(Trait.SUMS, Trait.AVERAGES_WINDOWS)
    for name in names_with(Trait.SUMS):
        spatial = next((int(c) for c in name if c.isdigit()), 1)
        result = reduce(operators()[name], normal(2, 3, *(4,) * spatial))
        assert result.numel() == 6, "one result for the whole axis"


def test_pools_by_their_parameters_and_results():
    windows, adaptive = set(), set()
    for operator in family("pooling"):
        names = {param.name for param in operator.params}
        if "kernel_size" in names:
            x = normal(2, 3, *(4,) * operator.spatial)
            largest = x.unfold(-1, 2, 2).amax(-1)
            for dim in range(2, x.dim() - 1):
                largest = largest.unfold(dim, 2, 2).amax(-1)
            if agrees(reduce(operator, x), largest):
                windows.add(operator.name)
        elif "output_size" in names:
            adaptive.add(operator.name)
    assert windows == names_with(Trait.LARGEST_OF_WINDOWS)
    assert adaptive == names_with(Trait.ADAPTIVE)


@pytest.mark.parametrize("name", sorted(names_with(Trait.KNOWN_OF_ONE)))
def test_along_an_axis_of_size_one_nothing_is_computed(name):
    x = normal(6, 1)
    result = reduce(operators()[name], x).reshape(6, 1)
    known = x, x.abs(), torch.zeros_like(x), torch.ones_like(x)
    assert any(agrees(result, value) for value in known)


@pytest.mark.parametrize("name", sorted(names_with(Trait.ESTIMATED_BY_PART)))
def test_a_part_of_the_elements_gives_the_same_order_of_magnitude(name):
    x = 1 + torch.rand(4096, dtype=torch.float64)
    whole, part = (float(reduce(operators()[name], value)) for value in (x, x[:3072]))
    assert 0.5 < part / whole < 2


def test_indices_of_extremes():
    x = torch.tensor([[3.0, -5.0, 1.0, 4.0, 0.5]])
    largest, smallest = set(), set()
    for operator in family("reduction"):
        if not any(param.name == "dim" for param in operator.params):
            continue
        result = function(operator)(x, dim=1)
        last = result if torch.is_tensor(result) else result[-1]
        if last.dtype == torch.int64:
            (largest if int(last) == 3 else smallest).add(operator.name)
    assert largest == names_with(Trait.INDEX_OF_LARGEST)
    assert smallest == names_with(Trait.INDEX_OF_SMALLEST)


@pytest.mark.filterwarnings("ignore")
def test_losses_with_a_target_for_each_row():
    per_row = set()
    for operator in family("loss"):
        tensors = [p.name for p in operator.params if p.kind is ParameterKind.TENSOR]
        if "target" not in tensors:
            continue
        inputs = [normal(3, 5, seed=seed) for seed in range(len(tensors) - 1)]
        for target in (torch.tensor([1, 0, 1]), torch.ones(3, dtype=torch.float64)):
            try:
                function(operator)(*inputs, target)
            except (RuntimeError, ValueError):
                continue
            per_row.add(operator.name)
    assert per_row == names_with(Trait.TARGET_PER_ROW)


# Normalizations


def test_a_shift_of_a_whole_group_does_not_matter():
    x = normal(3, 4, 5)
    shift = torch.tensor(2.5, dtype=torch.float64)
    own = {
        "softmax": {"dim": -1}, "log_softmax": {"dim": -1}, "group_norm": {"num_groups": 2},
        "layer_norm": {"normalized_shape": (5,)}, "rms_norm": {"normalized_shape": (5,)},
        "instance_norm": {}, "batch_norm": {
            "running_mean": None, "running_var": None, "training": True,
        },
    }  # fmt: skip
    unmoved = {
        name
        for name, attributes in own.items()
        if agrees(
            function(operators()[name])(x, **attributes),
            function(operators()[name])(x + shift, **attributes),
        )
    }
    assert unmoved == set(normalizing()) - {"batch_norm_train"}
    keeping = {name for name in unmoved if "batch" in name} | {"batch_norm_train"}
    assert names_with(Trait.IGNORES_SHIFT) == set(normalizing()) - keeping


def normalizing() -> dict[str, Operator]:
    return {op.name: op for op in operators().values() if op.normalized_axes is not None}


def test_a_shift_of_the_axes_of_one_group_is_taken_back_and_no_shift_of_fewer_axes():
    known = set()
    for sample in SAMPLES:
        operator = operators()[sample.op]
        if operator.normalized_axes is None:
            continue
        values, (result, *_) = run(sample)
        x, types = values["input"], dict(values)
        types["input"] = TensorType(tuple(x.shape))
        axes = operator.normalized_axes(types)
        if not axes or x.dtype != torch.float32 or not x.dim():
            continue
        for left_out in (None, *axes):
            shape = [1 if i in axes and i != left_out else n for i, n in enumerate(x.shape)]
            shift = normal(*shape).float()
            shifted, *_ = call(operator, {**values, "input": x + shift})
            is_same = torch.allclose(shifted, result, atol=1e-3, rtol=1e-3)
            if left_out is None:
                assert is_same, sample
                known.add(operator.name)
            elif x.shape[left_out] > 1:
                assert not is_same, (sample, left_out)
    assert known == set(normalizing())


def test_softmax_and_its_logarithm():
    x = normal(3, 4)
    shares = x.exp() / x.exp().sum(-1, keepdim=True)
    candidates = [op for op in family("reduction") if op.normalized_axes is not None]
    for operator in candidates:
        result = function(operator)(x, dim=-1)
        assert agrees(result, shares) or agrees(result.exp(), shares)
    assert {op.name for op in candidates} == names_with(Trait.SOFTMAX)


# Movement


def test_pieces_are_joined_again():
    joined = set()
    for operator in family("shape"):
        for x, results in calls(operator):
            dims = range(x.dim()) if Trait.CUTS in operator.traits and len(results) > 1 else ()
            try:
                is_same = any(agrees(torch.cat(results, dim), x) for dim in dims)
            except (RuntimeError, IndexError):
                continue
            if is_same:
                joined.add(operator.name)
    assert joined == names_with(Trait.SPLITS)


def test_views_and_copies():
    kinds: dict[Trait, set[str]] = {
        trait: set()
        for trait in (
            Trait.RESHAPES, Trait.PERMUTES, Trait.CUTS, Trait.BROADCASTS, Trait.REORDERS,
        )
    }  # fmt: skip
    for operator in family("shape"):
        pairs = [(x, result) for x, results in calls(operator) for result in results]
        pairs = [(x, result) for x, result in pairs if x.is_contiguous()]
        if not pairs:
            continue
        if all(is_view(x, result) for x, result in pairs):
            kinds[kind_of_view(pairs)].add(operator.name)
        elif all(
            x.shape == result.shape and torch.equal(*(y.flatten().sort()[0] for y in (x, result)))
            for x, result in pairs
        ) and any(not torch.equal(x, result) for x, result in pairs):
            kinds[Trait.REORDERS].add(operator.name)
    assert kinds == {trait: set(names_with(trait)) for trait in kinds}


def kind_of_view(pairs) -> Trait:
    if any(0 in result.stride() for _, result in pairs):
        return Trait.BROADCASTS
    if any(x.numel() != result.numel() for x, result in pairs):
        return Trait.CUTS
    is_in_order = all(torch.equal(x.flatten(), result.flatten()) for x, result in pairs)
    return Trait.RESHAPES if is_in_order else Trait.PERMUTES


def test_triangles():
    x = normal(5, 5)
    kept = {name: function(operators()[name])(x) for name in names_with(Trait.CUTS_TRIANGLE)}
    for result in kept.values():
        assert torch.equal(result[result != 0], x[result != 0])
    assert torch.equal(sum(kept.values()), x + x.diag().diag())
    lower = {name for name, result in kept.items() if result[0, -1] == 0}
    assert lower == names_with(Trait.KEEPS_LOWER_TRIANGLE)
    others = [op for op in family("matrix") if op.numerics is Numerics.EXACT]
    assert {op.name for op in others} == set(kept)


def test_every_trait_is_tested_here_and_used():
    text = Path(__file__).read_text()
    untested = [t for t in Trait if t not in CHOICES and f"Trait.{t.name}" not in text]
    assert untested == []
    assert [trait for trait in Trait if not names_with(trait)] == []


# One place


def listed(path: Path) -> Iterator[tuple[int, list[str]]]:
    """(line, names) of the sets, tuples and lists of operators' names in a module. A dict is a
    dispatch table: from each operator to the code that writes or reads the operator."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.Set, ast.Tuple, ast.List)):
            texts = [item.value for item in node.elts if isinstance(item, ast.Constant)]
            names = [text for text in texts if text in operators()]
            if len(names) > MOST_NAMES and len(names) > len(texts) / 2:
                yield node.lineno, names


def compared(path: Path) -> Iterator[int]:
    """Lines of a module that compare with the name of an operator, or with names in a literal."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            items = [side.elts if hasattr(side, "elts") else [side] for side in sides]
            texts = [
                item.value for side in items for item in side if isinstance(item, ast.Constant)
            ]
            if any(text in operators() for text in texts if isinstance(text, str)):
                yield node.lineno


@pytest.mark.slow
def test_comparisons_with_the_names_of_operators_become_fewer():
    outside = set(SRC.rglob("*.py")) - set((SRC / "ops").rglob("*.py"))
    compared_lines = [f"{path}:{line}" for path in sorted(outside) for line in compared(path)]
    assert len(compared_lines) <= MOST_COMPARISONS, (
        "ask for a trait of the operator: src/kernelwright/ops/traits.py\n"
        + "\n".join(compared_lines)
    )


def test_a_comparison_with_an_operator_is_seen(tmp_path):
    path = tmp_path / "module.py"
    path.write_text('a.op == "mul"\na.op in ("fish", "add")\na.op == "fish"\n')
    assert list(compared(path)) == [1, 2]


@pytest.mark.slow
def test_facts_about_operators_are_in_ops():
    modules = sorted(set(SRC.rglob("*.py")) - set((SRC / "ops").rglob("*.py")))
    lists = {
        f"{name}:{line}": names
        for path in modules
        if (name := path.relative_to(SRC).as_posix()) not in FOREIGN
        for line, names in listed(path)
    }
    assert lists == {}, "make the fact a trait: src/kernelwright/ops/traits.py"


def test_a_list_of_operators_is_seen(tmp_path):
    path = tmp_path / "module.py"
    path.write_text('NAMES = ("add", "sub", "mul", "div", "neg", "fish")')
    assert list(listed(path)) == [(1, ["add", "sub", "mul", "div", "neg"])]
