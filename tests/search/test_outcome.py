"""What is said at the end of a search: status, cause, sentences and counts."""

from dataclasses import replace

import pytest
from test_settle import ORIGINAL, chain, variant, verdict

from kernelwright.core.verdict import Code, Stage
from kernelwright.ops.operator import TensorType
from kernelwright.policy.answer import Malformed
from kernelwright.programs.build import Builder
from kernelwright.search.sources import Unread
from kernelwright.search.telling.outcome import EndedSearch, compared, outcome_record
from kernelwright.search.variant import Whole

NONE = replace(verdict(None), stage=Stage.STATIC, code=Code.NO_KERNEL, message="no kernel is kept")


def fragments(verdicts=(), *, winner=None, **options):
    """A form of one fragment whose candidates had these verdicts."""
    form = variant("contiguous", (1.0,))
    candidates = form.tuned[0].candidates * len(verdicts)
    tuned = replace(
        form.tuned[0], verdicts=tuple(verdicts), candidates=candidates, winner=winner, **options
    )
    chosen = () if winner is None else (0,)
    return replace(form, tuned=(tuned,), chosen=chosen)


def ended(form, whole_verdict=NONE, **options):
    facts = {
        "whole": Whole(form, ORIGINAL, whole_verdict),
        "searched": [form],
        "tuned": form.tuned,
        "refused": [],
        "left_out": [],
        "is_interrupted": False,
        "on_gpu": True,
        "budget_s": 60.0,
    }
    return outcome_record(EndedSearch(**facts | options))


def test_a_win_is_told_with_interval_cases_and_kernels():
    accepted = replace(verdict(1.0), speedup_interval=(1.85, 2.15), cases=("a", "b"))
    told = ended(fragments([accepted], winner=0), accepted)
    assert (told["status"], told["cause"]) == ("optimized", None)
    assert told["message"] == (
        "2.00x faster than PyTorch (95%: 1.85 to 2.15), correct in 2 cases, 1 of 3 operators in"
        " 1 kernel."
    )


def test_times_taken_beside_torch_compile_are_the_ones_that_are_told():
    accepted = replace(verdict(1.0), speedup_interval=(1.85, 2.15), cases=("a",))
    speedups = {"over_eager": [1.9, 1.8, 2.0], "over_compile": [0.8, 0.75, 0.9]}
    told = ended(fragments([accepted], winner=0), accepted, timed={"speedups": speedups})
    assert told["message"].startswith(
        "1.90x faster than PyTorch (95%: 1.80 to 2.00) and 1.25x slower than torch.compile"
        " (95%: 1.11 to 1.33), correct in 1 case,"
    )


def test_a_torch_compile_that_was_not_timed_is_left_out_with_its_reason():
    accepted = replace(verdict(1.0), speedup_interval=(1.85, 2.15), cases=("a",))
    timed = {"torch_compile": {"timed": False, "message": "It failed."}}
    assert ended(fragments([accepted], winner=0), accepted, timed=timed)["left_out"] == [
        "It failed."
    ]


@pytest.mark.parametrize(
    ("speedup", "text"),
    [
        ((2.0, 1.5, 2.5), "2.00x faster than X (95%: 1.50 to 2.50)"),
        ((0.5, 0.4, 0.8), "2.00x slower than X (95%: 1.25 to 2.50)"),
        ((1.1, 0.9, 1.2), "as fast as X within noise (1.10x; 95%: 0.90 to 1.20)"),
    ],
)
def test_faster_and_slower_are_said_where_the_interval_excludes_1(speedup, text):
    assert compared("X", *speedup) == text


def test_without_a_gpu_a_win_is_an_estimate():
    accepted = replace(verdict(1.0), times={}, cases=("a",))
    told = ended(fragments([accepted], winner=0), accepted, on_gpu=False)
    assert told["message"].startswith("Not timed: no GPU. ")
    assert "(estimate), correct in 1 case, 1 of 3 operators in 1 kernel." in told["message"]


def test_right_but_not_faster_is_told_with_the_times():
    told = ended(fragments([verdict(2.5)]))
    assert told["cause"] == "not_faster"
    assert "takes 2.5 ms and PyTorch 2 ms (measured)" in told["message"]
    told = ended(fragments([verdict(2.5)], reason="stays PyTorch: no traffic"), on_gpu=False)
    assert told["cause"] == "not_faster"
    assert "estimate" in told["message"]
    assert "measured" not in told["message"]


def test_a_kernel_is_told_beside_torch_compile_where_that_was_timed():
    """Faster than PyTorch, and not faster than torch.compile."""
    right = verdict(1.5)
    compiled = replace(right.times["candidate"], median_ms=1.25)
    right = replace(right, times=right.times | {"compiled": compiled})
    told = ended(fragments([right]))
    assert "none is faster than torch.compile: the best, for" in told["message"]
    assert "takes 1.5 ms and torch.compile 1.25 ms (measured)" in told["message"]


def test_wholes_that_could_not_be_timed_are_told_with_the_reason():
    told = ended(fragments([verdict(1.0)]), failed={"kernels": "GuestLost: no room"})
    assert "the module with them was not timed: GuestLost: no room." in told["message"]


def test_wrong_candidates_are_counted_by_reason_and_those_cut_off_apart():
    late = Unread(origin="m", reason=Malformed.OUT_OF_TIME, message="")
    unread = (late, replace(late, reason="no_code"))
    told = ended(fragments([verdict(None)] * 2, unread=unread))
    assert told["cause"] == "all_wrong"
    assert told["candidates"] == {
        "tried": 4, "right": 0, "wrong": 3, "cut_off": 1,
        "reasons": {"wrong_values": 2, "no_code": 1},
    }  # fmt: skip
    assert "3 wrong (wrong values 2, no code 1), 1 cut off by the clock" in told["message"]


def test_nothing_to_fuse_names_the_operators():
    outcome = ended(replace(fragments(), tuned=(), chosen=()), tuned=())
    assert outcome["cause"] == "nothing_to_fuse"
    assert "exp, relu, tanh" in outcome["message"]
    assert outcome["fragments"] == {"proposed": 0, "tried": 0}


def test_nothing_to_fuse_says_that_no_kernel_is_written_for_float64():
    b = Builder()
    [t] = b.call("exp", input=b.input(TensorType((4, 4), "float64")))
    form = replace(fragments(), tuned=(), chosen=(), original=b.program([t]))
    told = ended(form, tuned=())
    assert told["cause"] == "nothing_to_fuse"
    assert "No kernel is written for float64" in told["message"]
    assert "float64" not in ended(replace(form, original=chain()), tuned=())["message"]


def test_a_budget_that_ends_first_is_told_with_counts():
    told = ended(replace(fragments([verdict(2.5)]), num_untried=2))
    assert told["cause"] == "out_of_time"
    assert "The budget of 60 s ended before 2 of 3 fragments were tried." in told["message"]
    assert told["left_out"]
    told = ended(fragments(num_cut_off=2))
    assert told["cause"] == "out_of_time"
    assert told["left_out"] == ["2 candidates were cut off by the clock."]


def test_a_budget_that_ends_before_proposals_does_not_say_that_nothing_can_be_fused():
    outcome = ended(replace(fragments(), tuned=(), chosen=(), is_unproposed=True), tuned=())
    assert outcome["cause"] == "out_of_time"
    assert outcome["message"] == (
        "The budget of 60 s ended before fragments were proposed. optimized.py holds the original"
        " module. A larger budget may help."
    )


def test_a_whole_that_is_rejected_says_why():
    form = fragments([verdict(1.0)])
    refused = Whole(form, "", replace(verdict(None), message="y differs"))
    told = ended(form, refused=[refused])
    assert told["cause"] == "all_wrong"
    assert "(wrong_values): y differs." in told["message"]


@pytest.mark.parametrize("is_kept", [False, True])
def test_an_interruption_is_the_cause_whatever_is_kept(is_kept):
    form = fragments([verdict(1.0)], winner=0 if is_kept else None)
    found = verdict(1.0) if is_kept else NONE
    told = ended(form, found, is_interrupted=True)
    assert told["cause"] == "interrupted"
    assert told["status"] == ("optimized" if is_kept else "unchanged")
    assert told["message"].startswith("The search was interrupted when 1 of 1 fragment")


def test_an_interruption_before_the_first_fragment_claims_nothing():
    empty = replace(fragments(), tuned=(), chosen=())
    told = ended(empty, is_interrupted=True)
    assert told["cause"] == "interrupted"
    assert told["message"] == (
        "The search was interrupted before a fragment was tried. optimized.py holds the original"
        " module."
    )
