"""Triangular factors and results: right, and blocks of zeros are not visited."""

from collections.abc import Callable

import pytest
from judging import SHARED_LIMIT_BYTES, compiled, faults
from sketch import Sketch

from kernelwright.programs.program import Program
from kernelwright.teacher.writer import write


def lower_times_dense(m: int = 70, k: int = 90, diagonal: int = 0) -> Program:
    s = Sketch()
    return s.program(s.matmul(s.tril(s.input(m, k), diagonal=diagonal), s.input(k, 40)))


def upper_times_dense() -> Program:
    s = Sketch()
    return s.program(s.relu(s.matmul(s.triu(s.input(70, 90), diagonal=1), s.input(90, 40))))


def both_lower(size: int = 100) -> Program:
    s = Sketch()
    a, b = s.tril(s.input(size, size)), s.tril(s.input(size, size))
    return s.program(s.tril(s.matmul(a, b)))


def upper_by_a_transposed_lower() -> Program:
    s = Sketch()
    a, b = s.triu(s.input(60, 80), diagonal=-1), s.tril(s.input(50, 80), diagonal=1)
    return s.program(s.mm(a, s.t(b)))


def band_in_a_batch() -> Program:
    s = Sketch()
    band = s.triu(s.tril(s.input(3, 64, 64), diagonal=1), diagonal=-1)
    return s.program(s.bmm(band, s.input(3, 64, 33)))


def upper_result_after_a_bias() -> Program:
    s = Sketch()
    t = s.linear(s.input(70, 30), s.input(90, 30), s.input(90))
    return s.program(s.triu(s.exp(t), diagonal=1))


def half_lower() -> Program:
    s = Sketch()
    a, b = s.input(50, 60, dtype="bfloat16"), s.input(60, 40, dtype="bfloat16")
    return s.program(s.mm(s.tril(a), b))


def triangle_by_a_vector() -> Program:
    s = Sketch()
    return s.program(s.mv(s.tril(s.input(40, 50)), s.input(50)))


PROGRAMS: tuple[Callable[[], Program], ...] = (
    lower_times_dense,
    upper_times_dense,
    both_lower,
    upper_by_a_transposed_lower,
    band_in_a_batch,
    upper_result_after_a_bias,
    half_lower,
    triangle_by_a_vector,
)


@pytest.mark.slow
@pytest.mark.parametrize("build", PROGRAMS, ids=lambda build: build.__name__)
def test_triangles_of_factors_and_results_are_right(build):
    program = build()
    candidates = write(program, limit=2, seed=0, precision="strict")
    assert len(candidates) == 2
    assert faults(program, candidates) == []


def test_slices_of_k_skip_zeros_too():
    program = lower_times_dense(m=32, k=2048, diagonal=1000)
    written = write(program, limit=40, seed=0, precision="strict")
    split = next(c for c in written if c.plan[0].loop == "split_k_triangular")
    assert faults(program, [split]) == []


@pytest.mark.parametrize(
    ("build", "bounds"),
    [
        (lower_times_dense, ["end = tl.minimum(K, (pid_m + 1) * BLOCK_M)"]),
        (upper_times_dense, ["begin = (pid_m * BLOCK_M + 1) // BLOCK_K * BLOCK_K"]),
        (
            both_lower,
            [
                "begin = (pid_n * BLOCK_N) // BLOCK_K * BLOCK_K",
                "end = tl.minimum(K, (pid_m + 1) * BLOCK_M)",
                "end = tl.where(pid_n * BLOCK_N >= (pid_m + 1) * BLOCK_M, 0, end)",
            ],
        ),
        (
            upper_result_after_a_bias,
            ["end = tl.where((pid_n + 1) * BLOCK_N <= pid_m * BLOCK_M + 1, 0, K)"],
        ),
    ],
)
def test_the_sum_has_bounds_by_tile(build, bounds):
    [candidate] = write(build(), limit=1, seed=0, precision="strict")
    assert [line.strip() for line in candidate.source.splitlines() if line.strip() in bounds] == (
        bounds
    )
    assert candidate.plan[0].loop == "matmul_triangular"


def test_bounds_by_tile_compile_for_hopper():
    program = both_lower(4096)
    [candidate] = write(program, limit=1, seed=0, precision="strict")
    [usage] = compiled(program, candidate)
    assert usage.spills <= 128
    assert usage.shared_bytes <= SHARED_LIMIT_BYTES


def result_needed_in_full() -> Program:
    s = Sketch()
    t = s.matmul(s.input(64, 64), s.input(64, 64))
    return s.program(s.tril(t), t)


def plain() -> Program:
    s = Sketch()
    return s.program(s.relu(s.matmul(s.input(64, 64), s.input(64, 64))))


def result_used_twice() -> Program:
    s = Sketch()
    t = s.matmul(s.input(64, 64), s.input(64, 64))
    return s.program(s.add(s.tril(t), t))


@pytest.mark.parametrize("build", [result_needed_in_full, plain, result_used_twice])
def test_nothing_is_skipped_that_somebody_reads(build):
    [candidate] = write(build(), limit=1, seed=0, precision="strict")
    assert "for k in range(0, K, BLOCK_K):" in candidate.source
    assert candidate.plan[0].loop == "matmul"
