"""Sample calls of the operators that write into a part of a tensor."""

from samples import f16, f32, i64, sample

SAMPLES = (
    sample("scatter", f32(3, 5), dim=1, index=i64(2, 4), src=f32(2, 6)),
    sample("scatter", f16(3, 5), dim=-2, index=i64(3, 5), src=f16(3, 5)),
    sample("scatter_value", f32(3, 5), dim=1, index=i64(3, 7), value=0.5),
    sample("scatter_value", i64(3), dim=0, index=i64(2), value=4),
    sample("scatter_add", f32(3, 5), dim=1, index=i64(2, 4), src=f32(2, 6)),
    sample("scatter_add", f16(3, 5), dim=-2, index=i64(3, 5), src=f16(3, 5)),
    sample("index_put", f32(6, 5), (i64(4),), f32(4, 5), accumulate=True),
    sample("index_put", f32(6, 5, 3), (None, i64(4)), f32(4, 1), accumulate=True),
    sample("index_put", f16(6, 5), (i64(3, 1), i64(2)), f16(), accumulate=True),
    sample("select_scatter", f32(3, 5), f32(5), dim=0, index=2),
    sample("select_scatter", f16(3, 5, 2), f16(3, 2), dim=-2, index=-1),
    sample("slice_scatter", f32(5, 3), f32(2, 3), start=1, end=3),
    sample("slice_scatter", f16(3, 7), f16(3, 3), dim=-1, start=-6, step=2),
)

BAD = (
    sample("scatter", f32(3, 5), dim=1, index=f32(3, 5), src=f32(3, 5)),
    sample("scatter", f32(3, 5), dim=1, index=i64(4, 5), src=f32(4, 5)),
    sample("scatter", f32(3, 5), dim=1, index=i64(3, 5), src=f32(3, 4)),
    sample("scatter", f32(3, 5), dim=1, index=i64(3, 5), src=f16(3, 5)),
    sample("scatter_value", f32(3, 5), dim=2, index=i64(3, 5), value=1.0),
    sample("scatter_add", f32(3, 5), dim=1, index=i64(3, 5), src=f32(3, 4)),
    sample("index_put", f32(6, 5), (i64(4),), f32(3, 5)),
    sample("index_put", f32(6, 5), (i64(4),), f16(4, 5)),
    sample("select_scatter", f32(3, 5), f32(3), dim=0, index=0),
    sample("select_scatter", f32(3, 5), f32(5), dim=0, index=3),
    sample("slice_scatter", f32(5, 3), f32(3, 3), start=1, end=3),
    sample("slice_scatter", f32(5, 3), f32(5, 3), step=0),
)
