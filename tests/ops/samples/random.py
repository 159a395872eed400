"""Sample calls of the operators that draw from the generator."""

from samples import f16, f32, i64, nhwc, sample

SAMPLES = (
    sample("dropout", f32(3, 5)),
    sample("dropout", f16(3, 5), p=0.1),
    sample("dropout", nhwc(2, 3, 4, 5), p=0.0, training=False),
    sample("rand_like", f32(3, 5)),
    sample("rand_like", f16(7)),
    sample("randn_like", f32(3, 5)),
    sample("randn_like", f16(7)),
)

BAD = (
    sample("dropout", f32(3, 5), p=1.5),
    sample("dropout", f32(3, 5), p=-0.5),
    sample("rand_like", i64(3)),
    sample("randn_like", i64(3)),
)
