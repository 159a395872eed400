"""Sample calls of the reductions."""

from samples import b8, bf16, f16, f32, i32, i64, sample

SAMPLES = (
    *(
        sample(op, x, **attributes)
        for op in ("sum", "mean", "amax", "amin", "std", "var", "norm")
        for x, attributes in (
            (f32(3, 5), {}),
            (f32(3, 5), {"dim": (1,)}),
            (f32(2, 3, 4, 5), {"dim": (0, -1), "keepdim": True}),
            (f16(4, 33), {"dim": (-1,)}),
            (bf16(4, 9), {"dim": (0,), "keepdim": True}),
            (f32(2, 3, 4), {"dim": (2, 0)}),
            (f32(2, 3, 4), {"dim": ()}),
        )
    ),
    *(sample(op, f32(), dim=(0,)) for op in ("sum", "mean", "amax")),
    *(sample(op, x) for op in ("sum", "prod", "amax", "max_all") for x in (i32(4, 5), b8(4, 5))),
    sample("sum", i64(4, 5), dim=(1,), keepdim=True),
    sample("sum", f16(4, 5), dim=(1,), dtype="float32"),
    sample("mean", f16(4, 5), dim=(1,), dtype="float32"),
    sample("mean", i64(4, 5), dim=(1,), dtype="float32"),
    sample("norm", f16(4, 5), dim=(1,), dtype="float32"),
    sample("norm", f32(4, 5), ord=1),
    sample("norm", f32(4, 5), ord=3, dim=(0,), keepdim=True),
    sample("norm", f32(4, 5), ord=float("inf"), dim=(1,)),
    *(sample(op, x) for op in ("max_all", "min_all") for x in (f32(3, 4), f16(9), f32())),
    *(
        sample(op, x, **attributes)
        for op in ("max", "min", "argmax", "argmin")
        for x, attributes in (
            (f32(3, 5), {"dim": 1}),
            (f32(2, 3, 4), {"dim": -2, "keepdim": True}),
            (f32(), {"dim": 0}),
        )
    ),
    sample("argmax", f32(3, 5)),
    sample("argmin", f16(9)),
    sample("prod", f32(3, 5)),
    sample("prod", f32(3, 5), dim=1, keepdim=True),
    sample("prod", f16(3, 5), dim=0, dtype="float32"),
    *(sample(op, f32(3, 5), dim=(0,), correction=0) for op in ("std", "var")),
    *(sample(op, f32(3, 5), dim=1, correction=True, keepdim=True) for op in ("std", "var")),
    sample("logsumexp", f32(3, 5), dim=(1,)),
    sample("logsumexp", f32(2, 3, 5), dim=(0, 2), keepdim=True),
    sample("logsumexp", bf16(3, 5), dim=0),
    *(
        sample(op, x, **attributes)
        for op in ("any", "all")
        for x, attributes in (
            (b8(3, 5), {}),
            (b8(3, 5), {"dim": 1}),
            (f32(2, 3, 4), {"dim": (0, 2), "keepdim": True}),
        )
    ),
    *(
        sample(op, x, **attributes)
        for op in ("softmax", "log_softmax")
        for x, attributes in (
            (f32(3, 5), {"dim": 1}),
            (f32(2, 3, 4, 5), {"dim": -3}),
            (f16(3, 65), {"dim": -1}),
            (f16(3, 5), {"dim": 0, "dtype": "float32"}),
            (f32(), {"dim": 0}),
        )
    ),
)

BAD = (
    *(
        sample(op, f32(3, 5), dim=dim)
        for op in ("sum", "mean", "amax", "std", "norm", "logsumexp", "any")
        for dim in ((2,), (-3, 0), (0, 0), (1, -1))
    ),
    *(sample(op, f32(3, 5), dim=2) for op in ("max", "argmin", "prod", "softmax", "log_softmax")),
    *(sample(op, f32(3, 5), dim=(0, 1)) for op in ("max", "argmin", "prod")),
    *(sample(op, i64(3, 5)) for op in ("mean", "std", "var", "norm")),
    *(sample(op, i64(3, 5), dim=0) for op in ("softmax", "log_softmax")),
    sample("mean", f32(3, 5), dtype="int64"),
    sample("norm", i64(3, 5), dtype="float32"),
    sample("argmax", b8(3, 5), dim=0),
    *(sample(op, f32(3, 0), dim=1) for op in ("amax", "max", "argmax")),
    sample("max_all", f32(0)),
)
