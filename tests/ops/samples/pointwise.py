"""Sample calls of the pointwise operators."""

from samples import b8, bf16, f16, f32, i32, i64, nhwc, sample, u8

INT_TO_FLOAT = (
    *("sigmoid", "tanh", "softsign", "exp", "exp2", "expm1", "log", "log2", "log1p", "sqrt"),
    *("rsqrt", "reciprocal", "sin", "cos", "tan", "erf", "erfc", "atan", "sinh", "cosh", "asinh"),
    *("log10", "lgamma"),
)
FLOAT_ONLY = (
    *("leaky_relu", "silu", "gelu", "selu", "elu", "hardsigmoid", "hardswish", "mish", "softplus"),
    *("logsigmoid", "celu"),
)
INT_KEPT = (
    *("relu", "relu6", "hardtanh", "abs", "neg", "sign", "square", "floor", "ceil", "round"),
    *("trunc", "logical_not", "isnan"),
)
OF_SHARES = ("acos", "asin", "atanh", "erfinv")
"""Defined between -1 and 1."""
UNARY = (*INT_TO_FLOAT, *OF_SHARES, *FLOAT_ONLY, *INT_KEPT)
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
LOGICAL = ("logical_and", "logical_or", "logical_xor")
SHIFTS = ("bitwise_left_shift", "bitwise_right_shift")
BITWISE = ("bitwise_and", "bitwise_or", "bitwise_xor")

SAMPLES = (
    *(sample(op, f32(3, 5)) for op in UNARY),
    *(sample(op, f16(7)) for op in UNARY),
    # On CPU alone, logsigmoid makes its result contiguous.
    *(sample(op, nhwc(2, 3, 4, 5)) for op in UNARY if op != "logsigmoid"),
    *(sample(op, i64(4, 3)) for op in (*INT_TO_FLOAT, *INT_KEPT)),
    *(sample(op, b8(4)) for op in ("sigmoid", "exp", "sqrt", "sign", "square", "logical_not")),
    *(sample(op, f32()) for op in ("relu", "exp", "gelu")),
    sample("relu", nhwc(2, 3, 4, 5, 6)),
    sample("leaky_relu", f32(4, 6), negative_slope=0.2),
    sample("gelu", f32(4, 6), approximate="tanh"),
    sample("gelu", bf16(4, 6), approximate="tanh"),
    sample("elu", f32(4, 6), alpha=0.5),
    sample("celu", f32(4, 6), alpha=2.0),
    sample("hardtanh", f32(4, 6), min_val=-0.5, max_val=2.0),
    sample("softplus", f32(4, 6), beta=2.0, threshold=10.0),
    sample("threshold", f32(4, 6), threshold=0.5, value=2.0),
    sample("threshold", i64(4, 6), threshold=1, value=2),
    sample("clamp", f32(4, 6), min=-0.5),
    sample("clamp", nhwc(2, 3, 4, 5), max=0.5),
    sample("clamp", f16(4, 6), min=-0.5, max=1),
    sample("clamp", i32(4, 6), min=0),
    sample("clamp", i32(4, 6), min=0.5),
    sample("clamp", b8(4), min=0),
    sample("bitwise_not", i64(4, 6)),
    sample("bitwise_not", b8(4, 6)),
    sample("to_dtype", f32(4, 6), dtype="float16"),
    sample("to_dtype", f32(4, 6), dtype="bfloat16"),
    sample("to_dtype", i64(4, 6), dtype="float32"),
    sample("to_dtype", f16(4, 6), dtype="bool"),
    sample("to_dtype", nhwc(2, 3, 4, 5), dtype="float16"),
    # Binary
    *(
        sample(op, *operands)
        for op in ("add", "sub", "mul", "div", "maximum", "minimum", "pow", "rsub", *COMPARISONS)
        for operands in (
            (f32(3, 5), f32(3, 5)),
            (f32(4, 1, 5), f32(3, 1)),
            (f16(3, 5), f32()),
            (f16(3, 5), bf16(5)),
            (i32(3, 5), f32(5)),
            (i64(3, 5), i32(3, 1)),
            (nhwc(2, 3, 4, 5), nhwc(2, 3, 4, 5)),
            (f32(3, 1, 1), nhwc(2, 3, 4, 5)),
        )
    ),
    *(
        sample(op, *operands)
        for op in ("add", "mul", "sub")
        for operands in (
            (nhwc(2, 3, 4, 5), f32(2, 3, 4, 5)),
            (f32(2, 3, 4, 5), nhwc(2, 3, 4, 5)),
            (f32(5), nhwc(2, 3, 4, 5)),
            (f32(3, 4, 5), nhwc(2, 3, 4, 5)),
            (nhwc(2, 3, 4, 5), f32(1, 3, 1, 1)),
            (f32(1, 3, 4, 5), nhwc(2, 3, 4, 5)),
            (nhwc(1, 3, 4, 5), f32(2, 3, 4, 5)),
            (f32(2, 1, 4, 5), nhwc(2, 3, 4, 5)),
            (f32(2, 3, 1, 1), nhwc(2, 3, 4, 5)),
            (nhwc(2, 3, 2, 4, 5), f32(3, 1, 1, 1)),
        )
    ),
    *(
        sample(op, *operands)
        for op in ("add", "sub", "mul", "div", "pow")
        for operands in ((f32(3, 5), 2.5), (2, f16(3, 5)), (i32(3, 5), 2), (1.5, i64(4)))
    ),
    *(sample(op, x, 2) for op in ("rsub", *COMPARISONS) for x in (f32(4, 5), bf16(4), i64(3))),
    *(sample(op, b8(4), b8(3, 1)) for op in ("add", "mul", "maximum", "minimum", "eq")),
    sample("add", b8(4), True),
    sample("add", b8(4), 1),
    sample("add", f32(3, 5), f32(5), alpha=0.5),
    sample("sub", i64(3, 5), i64(5), alpha=2),
    sample("rsub", f32(3, 5), f32(5), alpha=2),
    sample("remainder", f32(3, 5), f32(5)),
    sample("remainder", i64(3, 5), 3),
    sample("remainder", 2.5, f16(4)),
    *(sample(op, f32(3, 5), f32(5)) for op in ("atan2", "hypot", "fmod")),
    *(sample(op, f16(3, 5), f32(3, 1)) for op in ("atan2", "hypot")),
    sample("atan2", i64(3, 5), i64(5)),
    sample("fmod", i64(3, 5), 3),
    sample("fmod", f16(4), 0.5),
    *(sample(op, i64(3, 4), 2) for op in SHIFTS),
    *(sample(op, 3, i32(3, 4)) for op in SHIFTS),
    *(sample(op, u8(3, 1), i32(4)) for op in SHIFTS),
    *(sample(op, u8(3, 4), 4) for op in SHIFTS),
    sample("div", f32(3, 5), f32(5), rounding_mode="floor"),
    sample("div", i64(3, 5), i64(5), rounding_mode="trunc"),
    sample("div", i64(3, 5), 2.0, rounding_mode="floor"),
    *(sample("pow", f32(3, 5), exponent) for exponent in (0.5, 3.0, -1)),
    sample("pow", 2.0, f32(3, 5)),
    *(sample(op, b8(3, 1), b8(4)) for op in (*LOGICAL, *BITWISE)),
    *(sample(op, f32(3, 4), i64(4)) for op in LOGICAL),
    *(sample(op, i32(3, 4), i64(4)) for op in BITWISE),
    *(sample(op, i32(3, 4), 3) for op in BITWISE),
    # Ternary
    sample("where", b8(3, 1), f32(3, 5), f32(5)),
    sample("where", b8(3, 5), f16(3, 5), 1.5),
    sample("where", b8(3, 5), 1, f32(5)),
    sample("where", b8(3, 5), 1.0, 2.0),
    sample("where", b8(2, 3, 4, 5), nhwc(2, 3, 4, 5), 0.0),
    sample("where", b8(2, 1, 1, 5), nhwc(2, 3, 4, 5), 0.0),
    sample("lerp", f32(3, 5), f32(3, 5), 0.3),
    sample("lerp", f32(3, 5), f32(5), f32(3, 1)),
    sample("lerp", nhwc(2, 3, 4, 5), nhwc(2, 3, 4, 5), nhwc(2, 3, 4, 5)),
    sample("masked_fill", f32(3, 5), b8(3, 5), -1.0),
    sample("masked_fill", f32(3, 5), b8(3, 1), f32()),
    sample("masked_fill", i64(3, 5), b8(5), 7),
    sample("masked_fill", nhwc(2, 3, 4, 5), b8(4, 5), 0),
    *(sample(op, f32(3, 5), f32(5), f32(3, 1)) for op in ("addcmul", "addcdiv")),
    *(sample(op, f16(3, 5), f16(5), f16(3, 1), value=0.5) for op in ("addcmul", "addcdiv")),
    sample("addcmul", i64(3), i64(3), i64(3), value=2),
)

BAD = (
    *(sample(op, i64(4, 3)) for op in FLOAT_ONLY),
    *(sample(op, b8(4)) for op in ("relu", "abs", "neg", "floor", "hardtanh")),
    sample("clamp", f32(4)),
    sample("bitwise_not", f32(4)),
    *(sample(op, f32(3, 5), f32(4)) for op in ("add", "mul", "pow", "eq", "maximum")),
    sample("sub", b8(4), b8(4)),
    sample("rsub", b8(4), 1),
    sample("add", i64(4), i64(4), alpha=0.5),
    sample("remainder", b8(4), b8(4)),
    sample("div", f32(4), f32(4), rounding_mode="up"),
    sample("bitwise_and", f32(4), i64(4)),
    *(sample(op, f32(4), 2) for op in SHIFTS),
    sample("fmod", b8(4), b8(4)),
    sample("hypot", i64(4), i64(4)),
    sample("where", f32(4), f32(4), f32(4)),
    sample("lerp", f32(4), f16(4), 0.5),
    sample("lerp", i64(4), i64(4), 0.5),
    sample("masked_fill", f32(4), f32(4), 0.0),
    sample("masked_fill", f32(4), b8(4), f32(4)),
    sample("addcdiv", i64(4), i64(4), i64(4)),
    sample("addcmul", i64(4), i64(3), i64(4)),
)
