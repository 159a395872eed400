"""What a user gets for a task, and its ratios, by form."""

import pytest

from kernelwright.core.delivered import (
    BETTER,
    COMPILE,
    EAGER,
    Ratio,
    delivered_timing,
    delivers_kernels,
    form_of,
    may_win,
    measured,
    over,
    unchanged,
)


def case(ours=None, eager=None, compiled=None, **fields):
    times = {"optimized": ours, "eager": eager, "compiled": compiled}
    medians = {name: ms and {"median_ms": ms} for name, ms in times.items()}
    return {"correct": True, "has_triton": True, **medians, **fields}


@pytest.mark.parametrize(
    ("fields", "form"),
    [
        ({}, "kernels"),
        ({"kept": False}, "original"),
        ({"has_triton": False}, "original"),
        ({"correct": False}, "original"),
        ({"form": "compiled", "kept": True}, "compiled"),
        ({"form": None}, "kernels"),
    ],
)
def test_an_older_record_delivers_kernels_that_were_kept_or_the_original(fields, form):
    assert form_of(case(**fields)) == form


def test_kernels_inside_torch_compile_are_ours_and_torch_compile_alone_is_not():
    assert delivers_kernels(case(form="compiled_kernels"))
    assert not delivers_kernels(case(form="compiled"))
    assert not may_win(case(form="compiled"))
    assert may_win(case(kept=False)), "an older record has the time of our kernels"


def test_kernels_have_their_time_and_the_intervals_of_the_record():
    found = case(1.0, 3.0, 2.0, speedup_intervals={"eager": [2.9, 3.1], "compiled": [1.8, 2.2]})
    assert over(found, EAGER) == Ratio(3.0, (2.9, 3.1))
    assert over(found, COMPILE) == Ratio(2.0, (1.8, 2.2))
    assert over(found, BETTER) == Ratio(2.0, (1.8, 2.2))


def test_the_better_baseline_has_the_smaller_ends_of_both_intervals():
    near = case(1.0, 2.0, 2.1, speedup_intervals={"eager": [1.5, 2.6], "compiled": [2.0, 2.2]})
    assert over(near, BETTER) == Ratio(2.0, (1.5, 2.2))


def test_an_original_has_the_time_of_eager_whatever_its_kernels_took():
    lost = case(4.0, 2.0, 1.0, kept=False, speedup_intervals={"eager": [0.4, 0.6]})
    assert delivered_timing(lost) == {"median_ms": 2.0}
    assert over(lost, EAGER) == Ratio(1.0)
    assert over(lost, COMPILE) == over(lost, BETTER) == Ratio(0.5)
    assert measured(lost, EAGER) == Ratio(0.5, (0.4, 0.6)), "of the kernel that was not kept"


def test_torch_compile_alone_is_as_fast_as_it_was_measured_or_exactly_as_fast():
    intervals = {"compiled": [0.97, 1.01], "eager": [1.9, 2.1]}
    timed = case(1.02, 2.0, 1.0, form="compiled", speedup_intervals=intervals)
    assert over(timed, COMPILE).value == pytest.approx(1 / 1.02)
    assert over(timed, BETTER).interval == (0.97, 1.01)
    untimed = case(None, 2.0, 1.0, form="compiled")
    assert over(untimed, COMPILE) == over(untimed, BETTER) == Ratio(1.0)
    assert over(untimed, EAGER) == Ratio(2.0)


def test_without_kernels_the_user_has_pytorch_or_since_forms_are_told_the_faster_of_both():
    assert unchanged(case(1.0, 4.0, 2.0), BETTER) == Ratio(0.5)
    assert unchanged(case(1.0, 4.0, 2.0, form="kernels"), BETTER) == Ratio(1.0)
    assert unchanged(case(1.0, 4.0, 2.0, form="kernels"), EAGER) == Ratio(2.0)
    assert unchanged(case(1.0, 2.0, 4.0, form="kernels"), COMPILE) == Ratio(2.0)


def test_without_a_time_there_is_no_ratio():
    assert over(case(), EAGER) is over(case(1.0, 2.0), COMPILE) is None
    assert over(case(form="kernels", eager=2.0), EAGER) is None
    no_eager = case(compiled=1.0, correct=False)
    assert over(no_eager, EAGER) == Ratio(1.0), "the original is itself"
    assert over(no_eager, COMPILE) is over(no_eager, BETTER) is None


def test_where_torch_compile_fails_pytorch_is_the_better_baseline():
    found = case(1.0, 2.0, speedup_intervals={"eager": [1.9, 2.1]})
    assert over(found, BETTER) == over(found, EAGER)
