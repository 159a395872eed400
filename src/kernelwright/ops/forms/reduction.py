"""Forms of reductions, and of softmax: any axis, the last two, or all of them."""

from collections.abc import Iterator, Mapping

from kernelwright.ops.forms.form import Form
from kernelwright.ops.forms.maker import Maker, Writer, always, sizes
from kernelwright.ops.operator import REQUIRED
from kernelwright.ops.reduction import OPERATORS


def _reduction(maker: Maker) -> Iterator[Form]:
    for slot in maker.inputs(1):
        rank = slot.kind.rank
        for fixed in maker.each("keepdim"):
            dims = maker.values("dim", *_dims(maker, rank, fixed["keepdim"]))
            operands = always(sizes("s", rank))
            yield from maker.grouped("dim", dims, (slot,), operands, fixed=fixed)


def _dims(maker: Maker, rank: int, keepdim: bool) -> Iterator[object]:
    """Yields the dimensions to reduce: each axis, the last two, and all.

    The operator refuses those that it does not take.
    """
    # torch.sum takes `keepdim` only together with dimensions, so "all" is spelled out there.
    yield from range(rank)
    if rank > 2:
        yield (rank - 2, rank - 1)
    default = maker.operator.param("dim").default
    if rank > 1 and default is not REQUIRED:
        yield tuple(range(rank)) if keepdim else default


def _whole(maker: Maker) -> Iterator[Form]:
    for slot in maker.inputs(1):
        yield from maker.form((slot,), always(sizes("s", slot.kind.rank)))


def along(maker: Maker) -> Iterator[Form]:
    """Forms along one axis that stays: softmax and scans."""
    for slot in maker.inputs(1):
        rank = slot.kind.rank
        menus = maker.menu("dim", *range(rank))
        yield from maker.form((slot,), always(sizes("s", rank)), menus)


_OTHERS: Mapping[str, Writer] = {
    "max_all": _whole, "min_all": _whole, "softmax": along, "log_softmax": along,
}  # fmt: skip
WRITERS: Mapping[str, Writer] = {op.name: _OTHERS.get(op.name, _reduction) for op in OPERATORS}
