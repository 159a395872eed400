"""Sample calls of the matrix operators."""

from samples import b8, bf16, f16, f32, i64, sample

SAMPLES = (
    sample("matmul", f32(3, 4), f32(4, 5)),
    sample("matmul", f32(2, 1, 3, 4), f32(7, 4, 5)),
    sample("matmul", f32(2, 3, 4), f32(4, 5)),
    sample("matmul", bf16(3, 33), bf16(33, 5)),
    sample("matmul", f32(4), f32(4)),
    sample("matmul", f32(4), f32(2, 4, 5)),
    sample("matmul", f32(2, 3, 4), f32(4)),
    sample("mm", f32(3, 4), f32(4, 5)),
    sample("mm", f16(3, 40), f16(40, 5)),
    sample("mm", i64(3, 4), i64(4, 5)),
    sample("bmm", f32(2, 3, 4), f32(2, 4, 5)),
    sample("bmm", f16(2, 3, 4), f16(2, 4, 5)),
    sample("mv", f32(3, 4), f32(4)),
    sample("mv", f16(3, 4), f16(4)),
    sample("dot", f32(7), f32(7)),
    sample("dot", f32(1), f32(1)),
    sample("addmm", f32(5), f32(3, 4), f32(4, 5)),
    sample("addmm", f32(3, 1), f32(3, 4), f32(4, 5), beta=0.5, alpha=2),
    sample("addmm", f32(), f32(3, 4), f32(4, 5), alpha=0.5),
    sample("baddbmm", f32(2, 3, 5), f32(2, 3, 4), f32(2, 4, 5)),
    sample("baddbmm", f16(1, 3, 1), f16(2, 3, 4), f16(2, 4, 5), beta=2, alpha=0.5),
    sample("linear", f32(3, 4), f32(5, 4)),
    sample("linear", f32(3, 4), f32(5, 4), f32(5)),
    sample("linear", f32(2, 3, 4), f32(5, 4), f32(5)),
    sample("linear", f16(4), f16(5, 4), f16(5)),
    *(
        sample(op, x, **attributes)
        for op in ("triu", "tril")
        for x, attributes in (
            (f32(3, 5), {}),
            (f16(2, 3, 5), {"diagonal": -1}),
            (i64(4, 4), {"diagonal": 2}),
        )
    ),
)

BAD = (
    sample("matmul", f32(3, 4), f32(3, 4)),
    sample("matmul", f32(), f32(4)),
    sample("matmul", f32(2, 3, 4), f32(3, 4, 5)),
    sample("matmul", f32(3, 4), f16(4, 5)),
    sample("mm", f32(2, 3, 4), f32(4, 5)),
    sample("mm", f32(3, 4), f32(5, 4)),
    sample("mm", b8(3, 4), b8(4, 3)),
    sample("bmm", f32(2, 3, 4), f32(1, 4, 5)),
    sample("bmm", f32(3, 4), f32(4, 5)),
    sample("mv", f32(3, 4), f32(3)),
    sample("dot", f32(3), f32(4)),
    sample("addmm", f32(4), f32(3, 4), f32(4, 5)),
    sample("addmm", f16(5), f32(3, 4), f32(4, 5)),
    sample("addmm", f32(2, 3, 5), f32(3, 4), f32(4, 5)),
    sample("baddbmm", f32(2, 3, 5), f32(2, 3, 4), f32(2, 5, 4)),
    sample("linear", f32(3, 4), f32(4, 5)),
    sample("linear", f32(3, 4), f32(2, 5, 4)),
    sample("linear", f32(3, 4), f32(5, 4), f32(4)),
    sample("linear", f32(3, 4), f16(5, 4)),
    sample("triu", f32(3)),
    sample("tril", f32()),
)
