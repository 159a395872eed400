"""Scaled dot-product attention."""

from kernelwright.ops.operator import Bound, Numerics, Operator, ParameterKind, TensorType
from kernelwright.ops.rules import attribute, broadcast, common, is_float, require, tensor


def _types(b: Bound) -> tuple[TensorType, ...]:
    """The result's type.

    Shapes: query (*batch, heads, L, E), key (*batch, heads, S, E), value (*batch, heads, S, V),
    result (*batch, heads, L, V).

    Raises:
        ValueError: shapes or dtypes do not fit, or the call drops values out.
    """
    query, key, value, mask = b["query"], b["key"], b["value"], b["attn_mask"]
    dtype = common(query, key, value)
    require(is_float(dtype), f"defined for floating-point tensors only, not {dtype}")
    ranks = (query.rank, key.rank, value.rank)
    require(min(ranks) >= 2, f"ranks {ranks} where 2 or more are needed")
    *_, length, width = query.shape
    *_, keys, key_width = key.shape
    require(width == key_width, f"query of width {width} meets keys of width {key_width}")
    require(keys == value.shape[-2], f"{keys} keys for {value.shape[-2]} values")
    require(b["dropout_p"] == 0, "dropout inside attention draws random numbers")
    batch = broadcast(query.shape[:-2], *_shared(b))
    if mask is not None:
        require(not b["is_causal"], "give one of attn_mask and is_causal")
        require(mask.dtype in ("bool", dtype), f"attn_mask of {mask.dtype} for {dtype}")
        full = (*batch, length, keys)
        require(broadcast(mask.shape, full) == full, f"attn_mask {mask.shape} for scores {full}")
    return (TensorType((*batch, length, value.shape[-1]), dtype),)


def _shared(b: Bound) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Batch sizes of key and value; with `enable_gqa` the heads are those of the query."""
    query, key, value = b["query"], b["key"], b["value"]
    if not b["enable_gqa"]:
        return key.shape[:-2], value.shape[:-2]
    require(min(query.rank, key.rank, value.rank) >= 3, "heads need rank 3 or more")
    heads = query.shape[-3]
    for shared in (key, value):
        count = shared.shape[-3]
        require(heads % count == 0, f"{heads} heads of queries share {count} of keys or values")
    return (*key.shape[:-3], heads), (*value.shape[:-3], heads)


def _flops(b: Bound, outputs: tuple[TensorType, ...]) -> int:
    """The FLOPs of both products. As in torch.utils.flop_counter, a causal mask saves none."""
    out, query, key = outputs[0], b["query"], b["key"]
    scores: int = out.numel // out.shape[-1] * key.shape[-2]
    return 2 * scores * int(query.shape[-1] + out.shape[-1])


OPERATORS: tuple[Operator, ...] = (
    Operator(
        name="scaled_dot_product_attention",
        family="attention",
        call="F.scaled_dot_product_attention",
        params=(
            tensor("query"),
            tensor("key"),
            tensor("value"),
            tensor("attn_mask", ParameterKind.OPTIONAL_TENSOR),
            attribute("dropout_p", 0.0),
            attribute("is_causal", False, False, True),
            attribute("scale", None),
            attribute("enable_gqa", False),
        ),
        types=_types,
        flops=_flops,
        numerics=Numerics.CONTRACTION,
        aten={"aten.scaled_dot_product_attention.default": {}},
    ),
)
