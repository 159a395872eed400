"""Operators that only move values: views, cuts, joins, copies, and tensors made of a constant.

Their results are values in contiguous layout; only `to_layout` chooses another.
"""

from collections.abc import Callable
from math import prod

from kernelwright.ops.operator import (
    REQUIRED,
    Bound,
    Layout,
    Numerics,
    Operator,
    Param,
    ParameterKind,
    TensorType,
)
from kernelwright.ops.rules import (
    INPUT,
    SELF,
    Aten,
    attribute,
    broadcast,
    defaults,
    dim_index,
    dim_indices,
    flops_none,
    promote,
    require,
    tensor,
)
from kernelwright.ops.traits import Trait

Shape = tuple[int, ...]

DIM = attribute("dim", REQUIRED)
FIRST_DIM = attribute("dim", 0)


# Shape rules of views


def _transpose(x: Shape, b: Bound) -> Shape:
    sizes = list(x)
    first, second = dim_index(b["dim0"], len(x)), dim_index(b["dim1"], len(x))
    if sizes:
        sizes[first], sizes[second] = sizes[second], sizes[first]
    return tuple(sizes)


def _t(x: Shape, _: Bound) -> Shape:
    require(len(x) <= 2, f"t() of rank {len(x)}")
    return x[::-1]


def _permute(x: Shape, b: Bound) -> Shape:
    order = [dim_index(d, len(x)) for d in b["dims"]]
    require(sorted(order) == list(range(len(x))), f"{b['dims']} is no order of {len(x)} dimensions")
    return tuple(x[d] for d in order)


def _reshape(x: Shape, b: Bound) -> Shape:
    wanted = tuple(b["shape"])
    require(all(s >= -1 for s in wanted) and wanted.count(-1) <= 1, f"shape {wanted}")
    known, numel = prod(s for s in wanted if s != -1), prod(x)
    fits = numel == known if -1 not in wanted else known > 0 and numel % known == 0
    require(fits, f"{x} has {numel} elements, which do not fit {wanted}")
    return tuple(numel // known if s == -1 else s for s in wanted)


def _flatten(x: Shape, b: Bound) -> Shape:
    start, end = dim_index(b["start_dim"], len(x)), dim_index(b["end_dim"], len(x))
    require(start <= end, f"start_dim {start} comes after end_dim {end}")
    return (*x[:start], prod(x[start : end + 1]), *x[end + 1 :])


def _squeeze(x: Shape, b: Bound) -> Shape:
    dims = () if b["dim"] == () else dim_indices(b["dim"], len(x))
    return tuple(size for i, size in enumerate(x) if i not in dims or size != 1)


def _unsqueeze(x: Shape, b: Bound) -> Shape:
    at = dim_index(b["dim"], len(x) + 1)
    return (*x[:at], 1, *x[at:])


def _broadcast_to(x: Shape, b: Bound) -> Shape:
    new = len(b["size"]) - len(x)
    require(new >= 0, f"{x} to fewer dimensions: {b['size']}")
    require(-1 not in b["size"][:new], f"-1 for a new dimension in {b['size']}")
    size = tuple(x[i - new] if s == -1 else s for i, s in enumerate(b["size"]))
    require(broadcast(x, size) == size, f"{x} does not broadcast to {size}")
    return size


def _slice(x: Shape, b: Bound) -> Shape:
    require(bool(x), "a scalar has no slices")
    require(b["step"] > 0, f"step {b['step']}")
    at = dim_index(b["dim"], len(x))
    start = _position(b["start"], x[at], 0)
    end = _position(b["end"], x[at], x[at])
    kept = max((end - start + b["step"] - 1) // b["step"], 0)
    return (*x[:at], kept, *x[at + 1 :])


def _position(index: int | None, size: int, absent: int) -> int:
    """The position where a slice starts or ends, counted from the front and clipped to the size.

    Args:
        absent: position that None stands for.
    """
    if index is None:
        return absent
    return min(max(index + size if index < 0 else index, 0), size)


def _select(x: Shape, b: Bound) -> Shape:
    require(bool(x), "a scalar has nothing to select")
    at, index = dim_index(b["dim"], len(x)), b["index"]
    require(-x[at] <= index < x[at], f"index {index} is out of range for size {x[at]}")
    return (*x[:at], *x[at + 1 :])


def _unfold(x: Shape, b: Bound) -> Shape:
    at, size, step = dim_index(b["dimension"], len(x)), b["size"], b["step"]
    require(bool(x) and 0 <= size <= x[at] and step > 0, f"size {size}, step {step} on {x}")
    return (*x[:at], (x[at] - size) // step + 1, *x[at + 1 :], size)


# Shape rules of copies


def _pad(x: Shape, b: Bound) -> Shape:
    pad = b["pad"]
    require(b["mode"] == "constant", f"mode {b['mode']!r}: only constant padding is known")
    require(len(pad) % 2 == 0 and len(pad) <= 2 * len(x), f"pad {pad} for rank {len(x)}")
    sizes = list(x)
    for i in range(len(pad) // 2):
        sizes[-1 - i] += pad[2 * i] + pad[2 * i + 1]
    require(all(size >= 0 for size in sizes), f"pad {pad} leaves negative sizes of {x}")
    return tuple(sizes)


def _flip(x: Shape, b: Bound) -> Shape:
    dim_indices(b["dims"], len(x))
    return x


def _roll(x: Shape, b: Bound) -> Shape:
    shifts = b["shifts"] if isinstance(b["shifts"], tuple) else (b["shifts"],)
    dims = b["dims"] if isinstance(b["dims"], tuple) else (b["dims"],)
    require(len(shifts) == len(dims) or (not dims and len(shifts) == 1), f"{shifts} over {dims}")
    for dim in dims:
        dim_index(dim, len(x))
    return x


def _repeat(x: Shape, b: Bound) -> Shape:
    repeats = b["repeats"]
    require(len(repeats) >= len(x) and min(repeats, default=0) >= 0, f"repeats {repeats} of {x}")
    padded = (1,) * (len(repeats) - len(x)) + x
    return tuple(size * times for size, times in zip(padded, repeats, strict=True))


# Types of everything else


def _pieces(x: TensorType, dim: int, sizes: list[int]) -> tuple[TensorType, ...]:
    """The types of the pieces of `x` that have these sizes along `dim`."""
    at = dim_index(dim, x.rank)
    return tuple(TensorType((*x.shape[:at], s, *x.shape[at + 1 :]), x.dtype) for s in sizes)


def _size(x: TensorType, dim: int) -> int:
    require(x.rank > 0, "a scalar has no parts")
    return x.shape[dim_index(dim, x.rank)]


def _even(whole: int, part: int) -> list[int]:
    """The sizes of `whole` cut into parts of `part`; the last part may be smaller.

    As in PyTorch, a size of 0 has one empty part.
    """
    require(part > 0, f"parts of size {part}")
    full, rest = whole // part, whole % part
    return [part] * full + [rest] * (rest > 0 or full == 0)


def _chunk_types(b: Bound) -> tuple[TensorType, ...]:
    x, dim, chunks = b["input"], b["dim"], b["chunks"]
    whole = _size(x, dim)
    require(chunks > 0 and whole > 0, f"{chunks} chunks of size {whole}")
    return _pieces(x, dim, _even(whole, -(-whole // chunks)))


def _split_types(b: Bound) -> tuple[TensorType, ...]:
    x, dim, sections = b["input"], b["dim"], b["split_size_or_sections"]
    whole = _size(x, dim)
    sizes = list(sections) if isinstance(sections, tuple) else _even(whole, sections)
    require(
        sum(sizes) == whole and all(size >= 0 for size in sizes), f"size {whole} in parts {sizes}"
    )
    return _pieces(x, dim, sizes)


def _unbind_types(b: Bound) -> tuple[TensorType, ...]:
    x = b["input"]
    at = dim_index(b["dim"], x.rank)
    return (TensorType((*x.shape[:at], *x.shape[at + 1 :]), x.dtype),) * _size(x, at)


def _cat_types(b: Bound) -> tuple[TensorType, ...]:
    tensors: tuple[TensorType, ...] = b["tensors"]
    first = tensors[0].shape
    require(bool(first), "scalars cannot be concatenated")
    at = dim_index(b["dim"], len(first))
    for other in tensors:
        same = other.rank == len(first) and all(
            i == at or size == first[i] for i, size in enumerate(other.shape)
        )
        require(same, f"{other.shape} and {first} differ outside dimension {at}")
    total = sum(t.shape[at] for t in tensors)
    return (TensorType((*first[:at], total, *first[at + 1 :]), promote(*tensors)),)


def _stack_types(b: Bound) -> tuple[TensorType, ...]:
    tensors: tuple[TensorType, ...] = b["tensors"]
    first = tensors[0].shape
    require(all(t.shape == first for t in tensors), "shapes differ")
    at = dim_index(b["dim"], len(first) + 1)
    return (TensorType((*first[:at], len(tensors), *first[at:]), promote(*tensors)),)


def _layout_types(b: Bound) -> tuple[TensorType, ...]:
    x, layout = b["input"], Layout(b["memory_format"])
    ranks = (4, 5) if layout is Layout.CHANNELS_LAST else (x.rank,)
    require(x.rank in ranks, f"{layout} needs rank 4 or 5, not {x.rank}")
    return (TensorType(x.shape, x.dtype, layout),)


def _like_types(b: Bound) -> tuple[TensorType, ...]:
    return (TensorType(b["input"].shape, b["dtype"] or b["input"].dtype),)


# Constructors


def _moving(
    name: str,
    types: Callable[[Bound], tuple[TensorType, ...]],
    *params: Param,
    aten: Aten,
    call: str = "",
    num_outputs: int = 1,
) -> Operator:
    return Operator(
        name=name,
        family="shape",
        call=call or f"torch.{name}",
        params=params,
        types=types,
        flops=flops_none,
        numerics=Numerics.EXACT,
        aten=aten,
        num_outputs=num_outputs,
    )


def _reshaping(
    name: str,
    shape: Callable[[Shape, Bound], Shape],
    *attributes: Param,
    aten: Aten | None = None,
    call: str = "",
) -> Operator:
    """An operator with one tensor in and one tensor of the same dtype out.

    Args:
        shape: (shape of the input, call) -> shape of the result.
    """

    def types(b: Bound) -> tuple[TensorType, ...]:
        x: TensorType = b["input"]
        return (TensorType(shape(x.shape, b), x.dtype),)

    return _moving(name, types, INPUT, *attributes, aten=aten or defaults(name), call=call)


def _like(name: str, *attributes: Param) -> Operator:
    """An operator that makes a constant tensor in the shape of its input, such as zeros_like."""
    unused = {"layout": "", "device": "", "pin_memory": "", "memory_format": ""}
    aten = {f"aten.{name}.default": {**SELF, **unused}}
    return _moving(name, _like_types, INPUT, *attributes, attribute("dtype", None), aten=aten)


_SIZE = {**SELF, "size": "shape"}
_AXES = {**SELF, "axis0": "dim0", "axis1": "dim1"}

_VIEWS = (
    _reshaping(
        "transpose", _transpose, attribute("dim0", REQUIRED), attribute("dim1", REQUIRED),
        aten={
            "aten.transpose.int": SELF, "aten.swapdims.default": SELF,
            "aten.swapaxes.default": _AXES,
        },
    ).having(Trait.PERMUTES),
    _reshaping("t", _t, aten=defaults("t", "numpy_T")).having(Trait.PERMUTES),
    _reshaping("permute", _permute, attribute("dims", REQUIRED)).having(Trait.PERMUTES),
    _reshaping(
        "reshape", _reshape, attribute("shape", REQUIRED),
        aten={
            "aten.reshape.default": SELF, "aten.view.default": _SIZE,
            "aten._unsafe_view.default": _SIZE,
            "aten._reshape_alias.default": {**_SIZE, "stride": ""},
        },
    ).having(Trait.RESHAPES),
    _reshaping(
        "flatten", _flatten, attribute("start_dim", 0), attribute("end_dim", -1),
        aten={"aten.flatten.using_ints": SELF},
    ).having(Trait.RESHAPES),
    _reshaping(
        "squeeze", _squeeze, attribute("dim", None),
        aten={f"aten.squeeze.{kind}": SELF for kind in ("default", "dim", "dims")},
    ).having(Trait.RESHAPES),
    _reshaping("unsqueeze", _unsqueeze, DIM).having(Trait.RESHAPES),
    _reshaping(
        "broadcast_to", _broadcast_to, attribute("size", REQUIRED),
        aten={**defaults("broadcast_to"), "aten.expand.default": {**SELF, "implicit": ""}},
    ).having(Trait.BROADCASTS),
    _reshaping(
        "slice", _slice, FIRST_DIM, attribute("start", None), attribute("end", None),
        attribute("step", 1), call="torch.ops.aten.slice", aten={"aten.slice.Tensor": SELF},
    ).having(Trait.CUTS),
    _reshaping(
        "select", _select, DIM, attribute("index", REQUIRED), aten={"aten.select.int": SELF}
    ).having(Trait.CUTS),
    _reshaping(
        "unfold", _unfold, attribute("dimension", REQUIRED), attribute("size", REQUIRED),
        attribute("step", REQUIRED), call="torch.Tensor.unfold",
    ).having(Trait.CUTS),
    _moving(
        "chunk", _chunk_types, INPUT, attribute("chunks", REQUIRED), FIRST_DIM,
        aten=defaults("chunk"), num_outputs=-1,
    ).having(Trait.CUTS, Trait.SPLITS),
    _moving(
        "split", _split_types, INPUT, attribute("split_size_or_sections", REQUIRED), FIRST_DIM,
        aten={
            "aten.split.Tensor": {**SELF, "split_size": "split_size_or_sections"},
            "aten.split.sizes": {**SELF, "split_size": "split_size_or_sections"},
            "aten.split_with_sizes.default": {**SELF, "split_sizes": "split_size_or_sections"},
        },
        num_outputs=-1,
    ).having(Trait.CUTS, Trait.SPLITS),
    _moving(
        "unbind", _unbind_types, INPUT, FIRST_DIM, aten={"aten.unbind.int": SELF}, num_outputs=-1
    ).having(Trait.CUTS),
)  # fmt: skip

_TENSORS = tensor("tensors", ParameterKind.TENSORS)

_COPIES = (
    _reshaping(
        "pad", _pad, attribute("pad", REQUIRED), attribute("mode", "constant"),
        attribute("value", None), call="F.pad", aten=defaults("pad", "constant_pad_nd"),
    ).having(Trait.CHEAP),
    _moving(
        "cat", _cat_types, _TENSORS, FIRST_DIM,
        aten={f"aten.{name}.default": {} for name in ("cat", "concat", "concatenate")},
    ),
    _moving("stack", _stack_types, _TENSORS, FIRST_DIM, aten={"aten.stack.default": {}}),
    _reshaping("flip", _flip, attribute("dims", REQUIRED)).having(Trait.REORDERS),
    _reshaping("roll", _roll, attribute("shifts", REQUIRED), attribute("dims", ())).having(
        Trait.REORDERS
    ),
    _reshaping("repeat", _repeat, attribute("repeats", REQUIRED), call="torch.Tensor.repeat"),
    _moving(
        "to_layout", _layout_types, INPUT,
        attribute("memory_format", REQUIRED, *(layout.value for layout in Layout)),
        call="torch.Tensor.contiguous", aten=defaults("contiguous", "clone"),
    ),
    _like("zeros_like"),
    _like("ones_like"),
    _like("full_like", attribute("fill_value", REQUIRED, 0.5, 1.0, 2.0)),
)  # fmt: skip

OPERATORS: tuple[Operator, ...] = (*_VIEWS, *_COPIES)
