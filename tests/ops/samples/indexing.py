"""Sample calls of the operators that pick elements by index."""

from samples import f16, f32, i32, i64, sample

SAMPLES = (
    sample("embedding", i64(2, 3), f32(7, 5)),
    sample("embedding", i32(4), f16(7, 5)),
    sample("embedding", i64(), f32(7, 5)),
    sample("gather", f32(3, 5), dim=1, index=i64(2, 7)),
    sample("gather", f16(3, 5), dim=-2, index=i64(6, 5)),
    sample("index_select", f32(3, 5), dim=1, index=i64(4)),
    sample("index_select", f32(3, 5, 2), dim=0, index=i32()),
    sample("take_along_dim", f32(3, 5), i64(3, 2), dim=1),
    sample("take_along_dim", f32(3, 5), i64(1, 2), dim=-1),
    sample("index", f32(3, 5), (i64(4),)),
    sample("index", f16(3, 5, 2), (None, i64(4, 2))),
    sample("index", f32(3, 5, 2), (i64(4, 1), i32(7))),
    sample("index", f32(3, 5, 2), (i64(4), None, i64(4))),
    sample("index", i64(2, 3, 5, 2), (None, i64(), i64(3))),
    sample("one_hot", i64(2, 3), num_classes=5),
    sample("one_hot", i64(), num_classes=3),
)

BAD = (
    sample("embedding", f32(3), f32(7, 5)),
    sample("embedding", i64(3), f32(7)),
    sample("gather", f32(3, 5), dim=1, index=i64(4, 5)),
    sample("gather", f32(3, 5), dim=1, index=i64(3)),
    sample("gather", f32(3, 5), dim=1, index=f32(3, 5)),
    sample("index_select", f32(3, 5), dim=2, index=i64(2)),
    sample("index_select", f32(3, 5), dim=0, index=i64(2, 2)),
    sample("take_along_dim", f32(3, 5), i64(3), dim=1),
    sample("take_along_dim", f32(3, 5), i64(2, 5), dim=1),
    sample("index", f32(3, 5), (f32(4),)),
    sample("index", f32(3, 5), (i64(4), i64(4), i64(4))),
    sample("index", f32(3, 5), (i64(4), i64(3))),
    sample("one_hot", i32(3), num_classes=4),
)
