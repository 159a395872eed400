"""Sample calls of the attention operator."""

from samples import b8, f16, f32, i64, sample

SDPA = "scaled_dot_product_attention"

SAMPLES = (
    sample(SDPA, f32(2, 4, 6, 8), f32(2, 4, 6, 8), f32(2, 4, 6, 8)),
    sample(SDPA, f32(2, 4, 6, 8), f32(2, 4, 5, 8), f32(2, 4, 5, 3), scale=0.3),
    sample(SDPA, f32(2, 4, 6, 8), f32(2, 4, 5, 8), f32(2, 4, 5, 8), f32(1, 1, 6, 5)),
    sample(SDPA, f32(2, 4, 6, 8), f32(2, 4, 6, 8), f32(2, 4, 6, 8), is_causal=True),
    sample(SDPA, f32(2, 4, 6, 8), f32(2, 2, 6, 8), f32(2, 2, 6, 8), enable_gqa=True),
    sample(SDPA, f16(2, 4, 6, 8), f16(2, 4, 6, 8), f16(2, 4, 6, 8), b8(6, 1)),
    sample(SDPA, f32(3, 6, 8), f32(3, 5, 8), f32(3, 5, 8)),
    sample(SDPA, f32(6, 8), f32(5, 8), f32(5, 3), f32(5)),
    sample(SDPA, f32(2, 4, 6, 8), f32(1, 4, 5, 8), f32(1, 4, 5, 8)),
)

BAD = (
    sample(SDPA, f32(8), f32(8), f32(8)),
    sample(SDPA, f32(2, 4, 6, 8), f32(2, 4, 6, 7), f32(2, 4, 6, 8)),
    sample(SDPA, f32(2, 4, 6, 8), f32(2, 3, 6, 8), f32(2, 3, 6, 8)),
    sample(SDPA, f32(2, 4, 6, 8), f32(2, 3, 6, 8), f32(2, 3, 6, 8), enable_gqa=True),
    sample(SDPA, f32(2, 4, 6, 8), f32(2, 4, 6, 8), f32(2, 4, 6, 8), f32(6, 5)),
    sample(SDPA, f32(2, 4, 6, 8), f32(2, 4, 6, 8), f32(2, 4, 6, 8), i64(6, 6)),
    sample(SDPA, f32(2, 4, 6, 8), f16(2, 4, 6, 8), f32(2, 4, 6, 8)),
    sample(SDPA, i64(2, 4, 6, 8), i64(2, 4, 6, 8), i64(2, 4, 6, 8)),
)
