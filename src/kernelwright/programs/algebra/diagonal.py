"""Products with diagonal matrices."""

from kernelwright.ops.traits import Trait
from kernelwright.programs.algebra.site import Site
from kernelwright.programs.program import Ref


def diagonal_product(site: Site) -> tuple[Ref, ...] | None:
    """diag(a) @ B scales the rows of B, B @ diag(a) its columns.

    As in kernels of triangular products, zeros beside the diagonal do not turn infinities into NaN.
    """
    if not site.call.has(Trait.MATMUL) or site.call.operator.factors[1].dim != -2:
        return None
    first, second = (value for _, value in site.call.args)
    for diagonal, other, dim in ((first, second, -1), (second, first, -2)):
        entries = _entries(site, diagonal)
        if entries is not None and len(site.shape(other)) >= 2:
            scale = site.emit("unsqueeze", input=entries, dim=dim)
            return (site.emit("mul", input=other, other=scale),)
    return None


def _entries(site: Site, matrix: Ref) -> Ref | None:
    """The entries on the diagonal of a value, where the value was built from them."""
    index = site.flow.maker(matrix)
    maker = None if index is None else site.flow.program.calls[index]
    if maker is None or maker.op != "aten.diag_embed.default" or len(maker.args) > 1:
        return None  # further arguments place the diagonal elsewhere
    [(_, entries)] = maker.args
    return entries if isinstance(entries, Ref) else None
