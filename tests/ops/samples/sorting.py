"""Sample calls of the operators that order elements."""

from samples import f16, f32, i64, sample

SAMPLES = (
    sample("sort", f32(3, 5)),
    sample("sort", i64(3, 5, 2), dim=1, descending=True),
    sample("sort", f32(3, 5), dim=0, stable=True),
    sample("sort", f32()),
    sample("topk", f32(3, 5), k=2),
    sample("topk", f16(7, 3), k=7, dim=0, largest=False),
    sample("topk", f32(), k=1),
)

BAD = (
    sample("sort", f32(3, 5), dim=2),
    sample("topk", f32(3, 5), k=6),
    sample("topk", f32(3, 5), k=2, dim=2),
)
