"""Sample calls of the normalization operators."""

from samples import bf16, f16, f32, i64, nhwc, sample

SAMPLES = (
    sample("layer_norm", f32(2, 3, 8), normalized_shape=(8,)),
    sample("layer_norm", f32(2, 3, 8), normalized_shape=(3, 8), weight=f32(3, 8), bias=f32(3, 8)),
    sample("layer_norm", bf16(4, 33), normalized_shape=(33,), weight=bf16(33), eps=1e-3),
    sample("layer_norm", nhwc(2, 3, 4, 8), normalized_shape=(8,)),
    sample("rms_norm", f32(2, 3, 8), normalized_shape=(8,)),
    sample("rms_norm", f16(2, 3, 8), normalized_shape=(3, 8), weight=f16(3, 8), eps=1e-5),
    sample("rms_norm", nhwc(2, 3, 4, 8), normalized_shape=(8,), weight=f32(8)),
    sample("group_norm", f32(2, 6), num_groups=3),
    sample("group_norm", f32(2, 6, 5, 4), num_groups=2, weight=f32(6), bias=f32(6)),
    sample("group_norm", f16(2, 6, 5), num_groups=6, weight=f16(6), eps=1e-3),
    sample("instance_norm", f32(2, 3, 5)),
    sample("instance_norm", f32(2, 3, 5, 4), weight=f32(3), bias=f32(3), eps=1e-3),
    sample("instance_norm", nhwc(2, 3, 5, 4, 3), weight=f32(3)),
    sample("instance_norm", f32(2, 3, 5, 4), f32(3), f32(3), f32(3), use_input_stats=False),
    sample("batch_norm", f32(4, 3), None, None, training=True),
    sample("batch_norm", f32(4, 3, 5), None, None, f32(3), f32(3), training=True, eps=1e-3),
    sample("batch_norm", nhwc(4, 3, 5, 6), None, None, f32(3), f32(3), training=True),
    sample("batch_norm", f32(4, 3, 5), f32(3), f32(3)),
    sample("batch_norm", nhwc(4, 3, 5, 6, 2), f32(3), f32(3), f32(3), f32(3)),
    sample("batch_norm", bf16(4, 3, 5, 6), bf16(3), bf16(3), bf16(3), bf16(3)),
    sample(
        "batch_norm_train", f32(4, 3, 5), f32(3), f32(3), f32(3), f32(3),
        training=True, momentum=0.1, eps=1e-5,
    ),
    sample(
        "batch_norm_train", nhwc(4, 3, 5, 6), None, None, f32(3), f32(3),
        training=True, momentum=0.3, eps=1e-3,
    ),
)  # fmt: skip

BAD = (
    sample("layer_norm", f32(2, 3, 8), normalized_shape=(3,)),
    sample("layer_norm", f32(8), normalized_shape=(2, 8)),
    sample("layer_norm", f32(2, 3, 8), normalized_shape=()),
    sample("layer_norm", f32(2, 3, 8), normalized_shape=(8,), weight=f32(3)),
    sample("layer_norm", i64(2, 3, 8), normalized_shape=(8,)),
    sample("rms_norm", f32(2, 3, 8), normalized_shape=(3,)),
    sample("rms_norm", f32(2, 3, 8), normalized_shape=(8,), weight=f32(3)),
    sample("group_norm", f32(2, 6, 5), num_groups=4),
    sample("group_norm", f32(6), num_groups=2),
    sample("group_norm", f32(1, 6), num_groups=6),
    sample("group_norm", f32(2, 6, 5), num_groups=2, weight=f32(2)),
    sample("instance_norm", f32(2, 3)),
    sample("instance_norm", f32(2, 3, 1)),
    sample("instance_norm", f32(2, 3, 5), use_input_stats=False),
    sample("instance_norm", f32(2, 3, 5), weight=f32(5)),
    sample("batch_norm", f32(4), None, None, training=True),
    sample("batch_norm", f32(1, 4), None, None, training=True),
    sample("batch_norm", f32(2, 4), None, None),
    sample("batch_norm", f32(2, 4), f32(3), f32(3)),
    sample("batch_norm", f32(2, 4), f32(4), f32(4), f32(3)),
)
