"""Times of what a model wrote, which is not run beside the baselines; and models that fail."""

from pathlib import Path

import pytest

from kernelwright.bench.case import _apart, _of_contest, _of_search, _to_time, run_case
from kernelwright.search import sources

PROGRAM = """
import torch


def get_inputs():
    x0 = torch.randn((9, 33), dtype=torch.float32)
    return [x0]


def fused_operator(x0):
    t0 = torch.tanh(x0)
    t1 = torch.softmax(t0, dim=1)
    return [t1]
"""


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
    both = _apart(found, timed | {"tf32": {}}, {})
    assert both["eager"] == found["eager"]  # taken in turns with the kernel
    assert both["compiled"] == timed["compiled"]
    assert both["speedup_intervals"] == {"eager": (1.9, 2.1), "compiled": (6.0 / 5.0, 8.0 / 4.0)}


def test_without_a_right_kernel_there_are_no_ratios():
    found = {"eager": None, "optimized": None, "compiled": None, "speedup_intervals": {}}
    timed = {"eager": timing(8.0, 8.5), "compiled": timing(6.0, 8.0), "speedup_intervals": {}}
    both = _apart(found, timed, {})
    assert both["speedup_intervals"] == {}
    assert (both["eager"], both["compiled"]) == (timed["eager"], timed["compiled"])


def test_where_torch_compile_is_delivered_the_time_of_a_slower_kernel_is_not_told():
    found = {
        "form": "compiled",
        "eager": timing(9.0, 11.0),
        "optimized": timing(14.0, 15.0),
        "compiled": None,
        "speedup_intervals": {"eager": (0.6, 0.7)},
    }
    timed = {"eager": timing(8.0, 8.5), "compiled": timing(6.0, 8.0), "speedup_intervals": {}}
    both = _apart(found, timed, {})
    assert (both["optimized"], both["speedup_intervals"]) == (None, {})
    assert (both["eager"], both["compiled"]) == (timed["eager"], timed["compiled"])


@pytest.mark.parametrize("form", ["kernels", "compiled_kernels", "compiled"])
def test_a_delivered_form_of_a_model_has_the_times_of_the_contest(form):
    searched = {
        "form": form,
        "eager": timing(9.0, 11.0),
        "optimized": timing(4.0, 5.0),
        "compiled": None,
        "speedup_intervals": {"eager": (1.9, 2.1)},
    }
    timed = {name: timing(8.0, 9.0) for name in ("eager", "compiled", "max_autotune")}
    contest = {
        "eager": timing(3, 3), "compiled": timing(2, 2), "optimized": timing(1, 1),
        "speedup_intervals": {"eager": [2.9, 3.1], "compiled": [1.9, 2.1]},
    }  # fmt: skip
    both = _apart(searched, timed | {"speedup_intervals": {}, "tf32": {}}, contest)
    assert {name: both[name] for name in ("eager", "compiled", "optimized")} == {
        name: contest[name] for name in ("eager", "compiled", "optimized")
    }
    widest = {"max_autotune": (8.0, 9.0)}  # this baseline took no part in the contest
    assert both["speedup_intervals"] == contest["speedup_intervals"] | widest


@pytest.mark.parametrize(
    ("form", "correct", "kept", "name"),
    [
        (None, True, True, "optimized.py"),
        (None, True, False, "slower.py"),
        (None, False, False, None),
        ("compiled_kernels", True, True, "optimized.py"),
        ("compiled", False, False, "optimized.py"),
        ("compiled", True, False, "optimized.py"),
        ("original", True, False, "slower.py"),
    ],
)
def test_what_is_timed_is_what_is_delivered_or_a_right_kernel(form, correct, kept, name):
    found = {"form": form, "correct": correct, "kept": kept}
    assert _to_time(found, Path()) == (name and Path(name))


def test_a_module_has_the_times_of_its_search():
    result = {
        "form": "kernels",
        "times": {"eager": timing(3, 3), "compiled": timing(2, 2), "optimized": timing(1, 1)},
        "speedups": {"over_eager": [3.0, 2.9, 3.1], "over_compile": [2.0, 1.9, 2.1]},
    }
    assert _of_search(result) == result["times"] | {
        "speedup_intervals": {"eager": [2.9, 3.1], "compiled": [1.9, 2.1]}
    }
    assert _of_search({"times": {"eager": timing(3, 3)}}) == {}, "the verdict's stay"
    times = {"eager": timing(3, 3), "compiled": timing(2, 2)}
    delivered = _of_search({"form": "compiled", "times": times})
    assert delivered["optimized"] is None, "torch.compile itself is delivered"


def test_a_task_in_which_a_model_failed_is_not_done(server, tmp_path, monkeypatch):
    """What the others wrote would count for the policy."""
    monkeypatch.setattr(sources, "write", lambda *_, **__: [])  # the teacher leaves the model work
    spec = tmp_path / "task.py"
    spec.write_text(PROGRAM)
    options = {"device": "cpu", "precision": "strict", "mode": "hybrid", "budget_s": 600}
    job = {
        "spec": str(spec),
        "candidate": None,
        "folder": str(tmp_path / "work"),
        "options": options | {"policy": f"teacher,openai:{server.url}#half"},
        "max_autotune": False,
        "room": str(tmp_path),
        "alone": True,
        "timeout_s": 900.0,
    }
    found = run_case(job)
    assert (found["code"], found["correct"]) == ("infra", False)
    assert "#half" in found["message"]


def test_a_case_says_what_its_search_decided_by():
    compiled = {
        "timed": True, "message": "", "seconds": 9.0, "right": False, "moves_layouts": True,
        "failed": {"graph": "no time"},
    }  # fmt: skip
    result = {"torch_compile": compiled, "times": {"eager": timing(8.0, 8.5)}}
    assert _of_contest(result) == {
        "right": False,
        "moves_layouts": True,
        "message": "",
        "failed": {"graph": "no time"},
        "median_ms": {"eager": timing(8.0, 8.5)["median_ms"]},
    }
