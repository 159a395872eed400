"""Sample calls of the pooling operators."""

from samples import Sample, f16, f32, nhwc, sample

SPACES = ((f32(2, 4, 9), f32(4, 9)), (f32(2, 4, 9, 8), f32(4, 9, 8)), (f32(2, 4, 7, 6, 5),) * 2)
"""Inputs with 1, 2 and 3 spatial dimensions."""


def windowed() -> tuple[Sample, ...]:
    made = []
    for d, (batched, other) in enumerate(SPACES, 1):
        for kind in ("avg", "max"):
            name = f"{kind}_pool{d}d"
            made.append(sample(name, batched, kernel_size=(2,) * d, stride=(2,) * d))
            made.append(
                sample(
                    name, other, kernel_size=(3,) * d, stride=(2,) * d, padding=(1,) * d,
                    ceil_mode=True,
                )
            )  # fmt: skip
            adaptive = f"adaptive_{kind}_pool{d}d"
            made.append(sample(adaptive, batched, output_size=(1,) * d))
            made.append(sample(adaptive, other, output_size=(3,) * d))
    return tuple(made)


SAMPLES = (
    *windowed(),
    sample("avg_pool2d", f16(2, 4, 9, 8), kernel_size=(3, 2), stride=(1, 2), padding=(1, 0)),
    sample(
        "avg_pool2d", nhwc(2, 4, 9, 8), kernel_size=(3, 2), stride=(1, 2), padding=(1, 1),
        count_include_pad=False,
    ),
    sample("avg_pool2d", f32(2, 4, 9, 8), kernel_size=(3, 2), stride=(1, 2), divisor_override=5),
    sample("avg_pool3d", nhwc(2, 4, 5, 5, 6), kernel_size=(2, 3, 2), stride=(1, 2, 2)),
    sample("max_pool1d", f32(2, 4, 9), kernel_size=(3,), stride=(1,), dilation=(2,)),
    sample("max_pool2d", nhwc(2, 4, 9, 8), kernel_size=(3, 2), stride=(1, 2), dilation=(2, 3)),
    sample("max_pool2d", f16(2, 4, 9, 8), kernel_size=(3, 2), stride=(1, 2), padding=(1, 1)),
    sample("max_pool3d", nhwc(2, 4, 5, 5, 6), kernel_size=(2, 3, 2), stride=(1, 2, 2)),
    sample("adaptive_avg_pool2d", nhwc(2, 4, 9, 8), output_size=(3, None)),
    sample("adaptive_avg_pool3d", nhwc(2, 4, 5, 5, 6), output_size=(3, 1, 2)),
    sample("adaptive_max_pool2d", nhwc(2, 4, 9, 8), output_size=(3, 5)),
    sample("adaptive_max_pool3d", nhwc(2, 4, 5, 5, 6), output_size=(3, 1, 2)),
    sample("interpolate", f32(2, 4, 5), scale_factor=2.5),
    sample("interpolate", f32(2, 4, 5), size=(9,), mode="linear", align_corners=False),
    sample("interpolate", nhwc(2, 4, 5, 6), scale_factor=(2.0, 3.0)),
    sample("interpolate", nhwc(2, 4, 5, 6), size=(9, 7), mode="bilinear", align_corners=True),
    sample("interpolate", f32(2, 4, 5, 6), size=(9, 7), mode="bicubic"),
    sample("interpolate", f32(2, 4, 5, 6), size=(9, 7), mode="area"),
    sample("interpolate", f32(2, 4, 5, 6), size=(3, 3), mode="bilinear", antialias=True),
    sample("interpolate", f32(2, 4, 3, 4, 5), scale_factor=2.0, mode="nearest-exact"),
    sample("interpolate", nhwc(2, 4, 3, 4, 5), scale_factor=0.7, mode="trilinear"),
)  # fmt: skip

BAD = (
    sample("avg_pool1d", f32(9), kernel_size=(2,), stride=(2,)),
    sample("avg_pool2d", f32(2, 4, 9, 8), kernel_size=(2, 2), stride=(2, 2), padding=(1, 2)),
    sample("avg_pool2d", f32(2, 4, 9, 8), kernel_size=(2, 9), stride=(2, 2)),
    sample("avg_pool2d", f32(2, 4, 9, 8), kernel_size=(2, 2), stride=(0, 2)),
    sample("avg_pool2d", f32(2, 4, 9, 8), kernel_size=(2, 2), stride=(2, 2), divisor_override=0),
    sample("avg_pool3d", f32(2, 4, 9, 8), kernel_size=(2, 10, 2), stride=(2, 2, 2)),
    sample("max_pool1d", f32(2, 4, 9), kernel_size=(3,), stride=(1,), dilation=(5,)),
    sample("max_pool2d", f32(2, 4, 9, 8), kernel_size=(0, 2), stride=(2, 2)),
    sample("max_pool2d", f32(2, 4, 9, 8), kernel_size=(2, 2, 2), stride=(2, 2)),
    sample("max_pool3d", f32(2, 4, 9, 8, 7), kernel_size=(2, 2, 2), stride=(2, 2, 2), padding=-1),
    sample("adaptive_avg_pool2d", f32(2, 4), output_size=(2, 2)),
    sample("adaptive_avg_pool2d", f32(2, 4, 5, 5), output_size=(2, -2)),
    sample("adaptive_max_pool1d", f32(2, 4, 5), output_size=(2, 2)),
    sample("interpolate", f32(2, 4, 5)),
    sample("interpolate", f32(2, 4, 5), size=(3,), scale_factor=2.0),
    sample("interpolate", f32(2, 4, 5), size=(3,), mode="bilinear"),
    sample("interpolate", f32(2, 4, 5), size=(3, 3)),
    sample("interpolate", f32(2, 4, 5), size=(3,), mode="lanczos"),
    sample("interpolate", f32(2, 4, 5), size=(3,), align_corners=True),
    sample("interpolate", f32(2, 4, 5), size=(3,), antialias=True),
    sample("interpolate", f32(2, 4, 5), scale_factor=0.1),
)
