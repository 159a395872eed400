"""Sample calls of the convolution operators."""

from samples import f16, f32, i64, nhwc, sample

SAMPLES = (
    sample("conv1d", f32(2, 4, 9), f32(6, 4, 3)),
    sample("conv1d", f32(2, 4, 9), f32(6, 2, 3), f32(6), stride=(2,), padding=(1,), groups=2),
    sample("conv1d", f32(4, 9), f32(6, 4, 2), padding="same", dilation=(3,)),
    sample("conv2d", f32(2, 4, 9, 8), f32(6, 4, 3, 2)),
    sample("conv2d", f16(2, 4, 9, 8), f16(6, 4, 3, 2), f16(6), padding=(1, 0), dilation=(2, 3)),
    sample("conv2d", f32(4, 9, 8), f32(6, 4, 3, 2), f32(6), padding="same"),
    sample("conv2d", nhwc(2, 4, 9, 8), f32(4, 1, 3, 3), f32(4), stride=(2, 1), groups=4),
    sample("conv2d", f32(2, 4, 9, 8), nhwc(6, 4, 3, 3)),
    sample("conv3d", f32(2, 3, 5, 6, 7), f32(4, 3, 3, 2, 1), f32(4)),
    sample("conv3d", nhwc(2, 4, 5, 6, 7), f32(4, 2, 3, 2, 2), stride=(1, 2, 3), groups=2),
    sample("conv3d", f32(2, 4, 5, 6, 7), nhwc(4, 4, 3, 2, 2), padding=(1, 0, 1)),
    sample("conv_transpose1d", f32(2, 4, 9), f32(4, 6, 3), f32(6)),
    sample("conv_transpose1d", f32(4, 9), f32(4, 3, 3), stride=(2,), padding=(1,), groups=2),
    sample("conv_transpose2d", f32(2, 4, 5, 6), f32(4, 3, 3, 2)),
    sample(
        "conv_transpose2d", f32(2, 4, 5, 6), f32(4, 3, 3, 2), f32(6),
        stride=(2, 3), padding=(1, 0), output_padding=(1, 2), groups=2, dilation=(2, 1),
    ),
    sample("conv_transpose2d", nhwc(2, 4, 5, 6), f32(4, 3, 3, 3)),
    sample("conv_transpose2d", f32(2, 4, 5, 6), nhwc(4, 3, 3, 3)),
    sample("conv_transpose3d", f32(2, 4, 3, 4, 5), f32(4, 3, 2, 3, 2), stride=(2, 1, 2)),
    sample("conv_transpose3d", nhwc(2, 4, 3, 4, 5), f32(4, 3, 2, 3, 2), f32(3)),
)  # fmt: skip

BAD = (
    sample("conv1d", f32(2, 4, 9), f32(6, 3, 3)),
    sample("conv1d", f32(9), f32(6, 4, 3)),
    sample("conv1d", f32(2, 4, 9), f32(6, 4, 3), padding="same", stride=(2,)),
    sample("conv1d", f32(2, 4, 9), f32(6, 4, 3), padding="full"),
    sample("conv1d", i64(2, 4, 9), f32(6, 4, 3)),
    sample("conv2d", f32(2, 4, 9, 8), f32(6, 4, 3, 3), f32(5)),
    sample("conv2d", f32(2, 4, 9, 8), f32(5, 2, 3, 3), groups=2),
    sample("conv2d", f32(2, 4, 9, 8), f32(6, 4, 3, 3), stride=(0, 1)),
    sample("conv2d", f32(2, 4, 9, 8), f32(6, 4, 3, 3), padding=(-1, 0)),
    sample("conv2d", f32(2, 4, 9, 8), f32(6, 4, 3, 3), dilation=(2, 4)),
    sample("conv2d", f32(2, 4, 9, 8), f32(6, 4, 3)),
    sample("conv2d", f32(2, 4, 9, 8), f32(6, 4, 3, 3), stride=(1, 1, 1)),
    sample("conv3d", f32(2, 4, 3, 3, 3), f32(6, 4, 3, 3, 4)),
    sample("conv3d", f32(2, 4, 3, 3, 3), f16(6, 4, 3, 3, 3)),
    sample("conv_transpose1d", f32(2, 4, 9), f32(6, 4, 3)),
    sample("conv_transpose2d", f32(2, 4, 1, 9), f32(4, 3, 1, 3), padding=(1, 0)),
    sample("conv_transpose2d", f32(2, 4, 5, 5), f32(4, 3, 3, 3), output_padding=(1, 1)),
    sample("conv_transpose2d", f32(2, 4, 5, 5), f32(4, 3, 3, 3), f32(6)),
    sample("conv_transpose3d", f32(2, 3, 3, 3, 3), f32(3, 2, 3, 3, 3), groups=2),
)
