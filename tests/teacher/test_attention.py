"""The attention family: masks, heads shared, every form of the loop, what surrounds it."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from judging import SHARED_LIMIT_BYTES, compiled, faults

from kernelwright.core.candidate import Candidate
from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.program import Program, Ref
from kernelwright.programs.resizing.variants import shape_variants
from kernelwright.programs.tensors import torch_dtype
from kernelwright.sandbox.host.compile_check import compile_check
from kernelwright.teacher.attention import writer as attention
from kernelwright.teacher.attention.flash import Flash
from kernelwright.teacher.attention.kernels import AttentionTile, flash_candidate
from kernelwright.teacher.writer import write
from kernelwright.verify.static import findings

SMALL = AttentionTile(queries=16, keys=16, values=16, width=16, num_warps=4, num_stages=2)


def attend(
    query: tuple[int, ...], key: tuple[int, ...], value: tuple[int, ...], dtype: str = "float32",
    mask: TensorType | None = None, **given: object,
) -> Program:  # fmt: skip
    b = Builder()
    q, k, v = (b.input(TensorType(shape, dtype)) for shape in (query, key, value))
    if mask is not None:
        given["attn_mask"] = b.input(mask)
    name = "scaled_dot_product_attention"
    return b.program(b.call(name, query=q, key=k, value=v, **given))


HEADS = (2, 3, 21, 9), (2, 3, 19, 9), (2, 3, 19, 12)
CASES: dict[str, Callable[[], Program]] = {
    "plain": lambda: attend(*HEADS),
    "causal": lambda: attend(*HEADS, is_causal=True),
    "more queries than keys": lambda: attend((2, 40, 8), (2, 7, 8), (2, 7, 8), is_causal=True),
    "one head": lambda: attend((33, 8), (17, 8), (17, 8)),
    "a scale of its own": lambda: attend(*HEADS, scale=0.3),
    "half": lambda: attend(*HEADS, "float16"),
    "bf16, causal": lambda: attend(*HEADS, "bfloat16", is_causal=True),
    "a mask that chooses": lambda: attend(*HEADS, mask=TensorType((21, 19), "bool")),
    "a mask for each head": lambda: attend(*HEADS, mask=TensorType((2, 1, 21, 19), "bool")),
    "a mask that adds": lambda: attend(*HEADS, mask=TensorType((2, 3, 1, 19))),
    "heads shared": lambda: attend(
        (2, 4, 10, 8), (2, 2, 11, 8), (2, 2, 11, 8), "float16", enable_gqa=True
    ),
    "one head for all": lambda: attend(
        (2, 4, 10, 8), (2, 1, 11, 8), (2, 1, 11, 8), enable_gqa=True, is_causal=True
    ),
    "keys for all of a batch": lambda: attend((2, 3, 10, 8), (1, 3, 11, 8), (3, 11, 8)),
    "wide heads": lambda: attend((2, 18, 40), (2, 17, 40), (2, 17, 50)),
    "one query": lambda: attend((2, 3, 1, 9), (2, 3, 19, 9), (2, 3, 19, 12)),
    "one column": lambda: attend((2, 7, 1), (2, 19, 1), (2, 19, 1), mask=TensorType((7, 19))),
    "one key": lambda: attend((2, 7, 9), (2, 1, 9), (2, 1, 12), is_causal=True),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("build", CASES.values(), ids=CASES)
def test_scores_never_lie_in_memory(build):
    program = build()
    candidates = [flash_candidate(Flash(program), SMALL)]
    assert [len(candidate.plan) for candidate in candidates] == [1]
    assert faults(program, candidates) == []


def projected() -> Program:
    """Heads split off by views, scaled before; joined again and activated after."""
    b = Builder()
    name = "scaled_dot_product_attention"

    def heads(dtype: str = "float32") -> Ref:
        [t] = b.call("reshape", input=b.input(TensorType((2, 20, 24), dtype)), shape=(2, 20, 3, 8))
        return b.call("transpose", input=t, dim0=1, dim1=2)[0]

    query = b.call("mul", input=heads(), other=b.input(TensorType((8,))))[0]
    key = b.call("add", input=heads(), other=1.0)[0]
    [t] = b.call(name, query=query, key=key, value=heads(), is_causal=True)
    [t] = b.call("transpose", input=t, dim0=1, dim1=2)
    [t] = b.call("reshape", input=t, shape=(2, 20, 24))
    return b.program(
        b.call("add", input=b.call("relu", input=t)[0], other=b.input(TensorType((24,))))
    )


def rotated() -> Program:
    """Rotary embedding of the queries: halves swapped, two products."""
    b = Builder()
    q, k, v = (b.input(TensorType((2, 3, 18, 8), "float16")) for _ in range(3))
    cos, sin = b.input(TensorType((18, 8), "float16")), b.input(TensorType((18, 8), "float16"))
    first, second = b.call("chunk", input=q, chunks=2, dim=-1)
    [t] = b.call("cat", tensors=(b.call("neg", input=second)[0], first), dim=-1)
    turned = b.call("mul", input=t, other=sin)[0]
    [t] = b.call("add", input=b.call("mul", input=q, other=cos)[0], other=turned)
    return b.program(b.call("scaled_dot_product_attention", query=t, key=k, value=v))


@pytest.mark.parametrize("build", [projected, rotated])
def test_what_surrounds_attention_is_fused(build):
    program = build()
    assert faults(program, [flash_candidate(Flash(program), SMALL)]) == []


@pytest.mark.parametrize("name", ["causal", "a mask that adds"])
def test_candidates_hold_at_odd_sizes_they_were_not_written_for(name):
    program = CASES[name]()
    candidates = write(program, limit=1, seed=0, precision="strict")
    [variant] = shape_variants(program, 1, seed=2, max_elements=1 << 12)
    assert faults(variant, candidates) == []


def test_a_query_that_no_key_answers_is_zero():
    b = Builder()
    q, k, v = (b.input(TensorType((4, 8))) for _ in range(3))
    never = b.call("gt", input=b.input(TensorType((4, 4))), other=1e30)[0]
    name = "scaled_dot_product_attention"
    program = b.program(b.call(name, query=q, key=k, value=v, attn_mask=never))
    assert faults(program, [flash_candidate(Flash(program), SMALL)]) == []


def test_candidates_are_distinct_legal_and_repeat_with_the_seed():
    program = attend(*[(8, 16, 512, 64)] * 3, "bfloat16", is_causal=True)
    one, same = (write(program, limit=4, seed=3, precision="strict") for _ in range(2))
    assert one == same
    assert len({candidate.source for candidate in one}) == 4
    for candidate in one:
        assert all(f.is_hint for f in findings(candidate.source, "pure", "fused_operator"))


def test_heads_too_wide_for_a_tile_are_walked_in_chunks():
    wide, narrow = (attend(*[(2, 4, 512, width)] * 3) for width in (1024, 64))
    loops = [write(p, limit=1, seed=0, precision="strict")[0] for p in (wide, narrow)]
    assert [candidate.plan[0].loop for candidate in loops] == ["flash_chunked", "flash"]


def test_the_favourite_fits_hopper():
    program = attend(*[(2, 4, 512, 64)] * 3, "bfloat16")
    [candidate] = write(program, limit=1, seed=0, precision="strict")
    given = [
        torch.empty(v.type.shape, device="meta", dtype=torch_dtype(v.type.dtype))
        for v in program.inputs
    ]
    assert set(compile_check(candidate.source, given).kernels) == {candidate.plan[0].kernel}


def test_two_attentions_are_not_claimed():
    b = Builder()
    q, k, v = (b.input(TensorType((4, 8))) for _ in range(3))
    name = "scaled_dot_product_attention"
    [t] = b.call(name, query=q, key=k, value=v)
    assert not attention.classify(b.program(b.call(name, query=t, key=k, value=v)))
    assert not attention.classify(attend(*HEADS, "float64"))


def written(program: Program) -> list[Candidate]:
    return write(program, limit=2, seed=0, precision="tf32")


def test_precision_follows_the_policy():
    [first, *_] = written(attend(*HEADS))
    assert first.plan[0].precision == "tf32"
    [strict, *_] = write(attend(*HEADS), limit=1, seed=0, precision="strict")
    assert strict.plan[0].precision == "tf32x3"


SPLIT = replace(SMALL, splits=4)
SHARED: dict[str, Callable[[], Program]] = {
    "one query": lambda: attend((2, 3, 1, 9), (2, 3, 70, 9), (2, 3, 70, 20)),
    "causal, some splits without keys": lambda: attend(
        (2, 33, 8), (2, 150, 8), (2, 150, 8), is_causal=True
    ),
    "masked": lambda: attend((5, 8), (90, 8), (90, 8), mask=TensorType((5, 90), "bool")),
    "fewer keys than splits": lambda: attend((2, 5, 8), (2, 7, 8), (2, 7, 8), "bfloat16"),
}


@pytest.mark.parametrize("build", SHARED.values(), ids=SHARED)
def test_splits_of_the_keys_are_merged(build):
    program = build()
    assert faults(program, [flash_candidate(Flash(program), SPLIT)]) == []


def test_few_queries_to_many_keys_are_split_and_many_are_not():
    decode = attend((1, 8, 1, 128), (1, 8, 8192, 128), (1, 8, 8192, 128), "bfloat16")
    [first] = write(decode, limit=1)
    assert [plan.loop for plan in first.plan] == ["flash_split", "flash_merge"]
    assert first.plan[0].tiles["SPLIT_N"] == 32
    [usage, _] = compiled(decode, first)
    assert usage.shared_bytes <= SHARED_LIMIT_BYTES
    prefill = attend((8, 16, 1024, 64), (8, 16, 1024, 64), (8, 16, 1024, 64), "bfloat16")
    assert {c.plan[0].loop for c in write(prefill, limit=1 << 10)} == {"flash"}
