"""Tensors of 2^31 elements and more: every family's offsets into them are computed in 64 bits."""

import ast
from collections.abc import Iterator
from dataclasses import replace

import pytest
from sketch import Sketch

from kernelwright.core.candidate import Candidate
from kernelwright.ops.operator import Layout, TensorType
from kernelwright.programs.program import Program
from kernelwright.teacher.writer import family, write

SAMPLE = 12
"""Candidates of each program, drawn alike from all ways."""


def image(layout: Layout = Layout.CONTIGUOUS) -> tuple[Sketch, object]:
    s = Sketch()
    return s, s.builder.input(TensorType((64, 64, 1024, 1024), "float16", layout))


def elementwise() -> Program:
    s = Sketch()
    return s.program(s.relu(s.add(s.input(1 << 16, 1 << 16), s.input(1 << 16))))


def crossed() -> Program:
    s = Sketch()
    return s.program(s.add(s.t(s.input(1 << 16, 1 << 15)), s.input(1 << 15, 1 << 16)))


def reduced_rows() -> Program:
    s = Sketch()
    return s.program(s.softmax(s.input(1 << 20, 4096), dim=1))


def reduced_columns() -> Program:
    s = Sketch()
    return s.program(s.sum(s.input(1 << 20, 4096), dim=0))


def reduced_across() -> Program:
    s = Sketch()
    both = s.add(s.t(s.input(1 << 16, 1 << 15)), s.input(1 << 15, 1 << 16))
    return s.program(s.logsumexp(both, dim=1))


def reduced_to_one() -> Program:
    s = Sketch()
    return s.program(s.mse_loss(s.input(1 << 16, 1 << 16), s.input(1 << 16, 1 << 16)))


def product() -> Program:
    s = Sketch()
    return s.program(s.relu(s.linear(s.input(1 << 20, 4096), s.input(4096, 4096))))


def triangular_batch() -> Program:
    s = Sketch()
    return s.program(s.bmm(s.tril(s.input(512, 2048, 2048)), s.input(512, 2048, 2048)))


def long_sum() -> Program:
    s = Sketch()
    return s.program(s.mm(s.input(64, 1 << 26), s.input(1 << 26, 64)))


def by_a_vector() -> Program:
    s = Sketch()
    return s.program(s.mv(s.input(1 << 17, 1 << 15), s.input(1 << 15)))


def joined_factor() -> Program:
    s = Sketch()
    t = s.cat(tensors=(s.input(1 << 20, 4096), s.input(1 << 20, 64)), dim=1)
    return s.program(s.matmul(t, s.input(4160, 64)))


def convolved() -> Program:
    s, x = image()
    return s.program(s.relu(s.conv2d(x, s.input(64, 64, 3, 3, dtype="float16"), padding=1)))


def convolved_channels_last() -> Program:
    s, x = image(Layout.CHANNELS_LAST)
    weights = TensorType((64, 64, 3, 3), "float16", Layout.CHANNELS_LAST)
    return s.program(s.conv2d(x, s.builder.input(weights), padding=1))


def depthwise() -> Program:
    s, x = image()
    return s.program(s.conv2d(x, s.input(64, 1, 3, 3, dtype="float16"), groups=64))


def pooled() -> Program:
    s, x = image()
    return s.program(s.max_pool2d(x, kernel_size=(3, 3), stride=(2, 2)))


def attended() -> Program:
    s = Sketch()
    q, k, v = (s.input(64, 64, 8192, 128, dtype="float16") for _ in range(3))
    return s.program(s.scaled_dot_product_attention(q, k, v, is_causal=True))


def scanned() -> Program:
    s = Sketch()
    return s.program(s.cumsum(s.input(1 << 16, 1 << 16), dim=1))


def moved() -> Program:
    s = Sketch()
    t = s.cat(tensors=(s.input(1 << 16, 1 << 15), s.input(1 << 16, 5)), dim=1)
    return s.program(s.flip(t, dims=(0,)))


PROGRAMS = {
    build: kind
    for kind, builds in {
        "pointwise": (elementwise, crossed),
        "reduction": (reduced_rows, reduced_columns, reduced_across, reduced_to_one),
        "matmul": (product, triangular_batch, long_sum, by_a_vector, joined_factor),
        "convolution": (convolved, convolved_channels_last, depthwise),
        "pooling": (pooled,),
        "attention": (attended,),
        "scan": (scanned,),
        "movement": (moved,),
    }.items()
    for build in builds
}


@pytest.mark.parametrize("build", PROGRAMS, ids=lambda build: build.__name__)
def test_offsets_into_huge_tensors_have_64_bits(build):
    program = build()
    assert family(program) == PROGRAMS[build]
    types = {value.name: value.type for value in program.inputs}
    types |= {n: t for c in program.calls for n, t in zip(c.outputs, c.types, strict=True)}
    huge = {name for name, made in types.items() if made.numel >= 2**31}
    assert huge
    candidates = write(program, limit=SAMPLE, draw="uniform")
    assert candidates
    for candidate in candidates:
        assert "too many elements" not in candidate.source
        assert list(narrow_addresses(candidate, huge)) == [], candidate.source


@pytest.mark.parametrize("build", [crossed, product, scanned], ids=lambda build: build.__name__)
def test_an_offset_left_narrow_is_seen(build):
    [candidate] = write(build(), limit=1)
    narrow = replace(candidate, source=candidate.source.replace(".to(tl.int64)", ""))
    assert list(narrow_addresses(narrow, {"x0", "x1", "t0", "t1"}))


def narrow_addresses(candidate: Candidate, huge: set[str]) -> Iterator[str]:
    """Addresses into huge tensors that no 64-bit position is part of, and products in them of
    32-bit numbers alone."""
    for function in ast.parse(candidate.source).body:
        if isinstance(function, ast.FunctionDef) and function.decorator_list:
            yield from _narrow_in(function, huge)


def _narrow_in(function: ast.FunctionDef, huge: set[str]) -> Iterator[str]:
    wide: set[str] = set()
    based: set[str] = {f"{name}_ptr" for name in huge}
    """Pointers into huge tensors."""
    for node in ast.walk(function):  # outer statements before inner ones, each level in order
        if isinstance(node, ast.AugAssign | ast.Assign):
            names = [n.id for t in _targets(node) for n in ast.walk(t) if isinstance(n, ast.Name)]
            if _is_wide(node.value, wide):
                wide.update(names)
            if _names(node.value) & based and not _loads(node.value):
                based.update(names)
        if isinstance(node, ast.For) and _is_wide(node.iter, wide):
            wide.update(_names(node.target))
        for text in _addresses(node):
            if _names(text) & based and "_ptr" in ast.unparse(text):
                parts = [text, *(n for n in ast.walk(text) if _is_scaled_position(n))]
                yield from (ast.unparse(part) for part in parts if not _is_wide(part, wide))


def _is_scaled_position(node: ast.AST) -> bool:
    """A product of a position, not only of sizes, which are in capitals or counts."""
    is_product = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)
    sizes = ("n_", "chunk")
    return is_product and any(n.islower() and not n.startswith(sizes) for n in _names(node))


def _targets(node: ast.Assign | ast.AugAssign) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def _addresses(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("tl.load", "tl.store"):
        yield node.args[0]


def _loads(node: ast.AST) -> bool:
    return any(True for inner in ast.walk(node) for _ in _addresses(inner))


def _names(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def _is_wide(node: ast.AST, wide: set[str]) -> bool:
    return bool(_names(node) & wide) or "tl.int64" in ast.unparse(node)
