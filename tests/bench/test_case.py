"""Times of what a model wrote, which is not run beside the baselines."""

from kernelwright.bench.case import _apart


def timing(low, high):
    return {"median_ms": (low + high) / 2, "low_ms": low, "high_ms": high}


def test_a_model_s_kernel_keeps_its_own_times_and_ratios_are_as_wide_as_both_allow():
    found = {
        "eager": timing(9.0, 11.0),
        "optimized": timing(4.0, 5.0),
        "compiled": None,
        "speedup_intervals": {"eager": (1.9, 2.1)},
    }
    timed = {"eager": timing(8.0, 8.5), "compiled": timing(6.0, 8.0), "speedup_intervals": {}}
    both = _apart(found, timed | {"tf32": {}})
    assert both["eager"] == found["eager"]  # taken in turns with the kernel
    assert both["compiled"] == timed["compiled"]
    assert both["speedup_intervals"] == {"eager": (1.9, 2.1), "compiled": (6.0 / 5.0, 8.0 / 4.0)}


def test_without_a_right_kernel_there_are_no_ratios():
    found = {"eager": None, "optimized": None, "compiled": None, "speedup_intervals": {}}
    timed = {"eager": timing(8.0, 8.5), "compiled": timing(6.0, 8.0), "speedup_intervals": {}}
    both = _apart(found, timed)
    assert both["speedup_intervals"] == {}
    assert both["compiled"] == timed["compiled"]
