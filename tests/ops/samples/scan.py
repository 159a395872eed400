"""Sample calls of the cumulative operators."""

from samples import b8, f16, f32, i32, i64, sample

SUMS = ("cumsum", "cumprod", "logcumsumexp")
EXTREMES = ("cummax", "cummin")

SAMPLES = (
    *(sample(op, f32(3, 5), dim=1) for op in (*SUMS, *EXTREMES)),
    *(sample(op, f32(2, 3, 4), dim=-2) for op in (*SUMS, *EXTREMES)),
    *(sample(op, f16(4, 9), dim=0) for op in (*SUMS, *EXTREMES)),
    *(sample(op, f32(), dim=0) for op in (*SUMS, *EXTREMES)),
    *(sample(op, x, dim=0) for op in ("cumsum", "cumprod") for x in (b8(7), i32(3, 4))),
    *(sample(op, i32(3, 4), dim=1) for op in EXTREMES),
    *(sample(op, f16(3, 4), dim=1, dtype="float32") for op in ("cumsum", "cumprod")),
    sample("cumsum", i64(3, 4), dim=1, dtype="float32"),
)

BAD = (
    *(sample(op, f32(3, 5), dim=2) for op in (*SUMS, *EXTREMES)),
    *(sample(op, f32(), dim=1) for op in (*SUMS, *EXTREMES)),
    sample("logcumsumexp", i64(3), dim=0),
)
