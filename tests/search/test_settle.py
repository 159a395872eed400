"""Which whole is kept: accepted and not slower, else the next form, else fewer fragments."""

import math
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
import verdicts

from kernelwright.core.candidate import Candidate, uses_compile
from kernelwright.core.errors import OutOfTime
from kernelwright.core.verdict import Code, Precision, Verdict
from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.fragments import partition
from kernelwright.programs.fragments.fragment import extract
from kernelwright.programs.program import Program
from kernelwright.search.contest.wholes import Wholes
from kernelwright.search.optimize import search_target
from kernelwright.search.options import SearchOptions
from kernelwright.search.search import Search
from kernelwright.search.target import Target
from kernelwright.search.telling.describe import Spent
from kernelwright.search.telling.steps import SearchSteps
from kernelwright.search.tune import Tuned
from kernelwright.search.variant import Variant
from kernelwright.timing import deadline
from kernelwright.timing.deadline import Budget, Deadline
from kernelwright.verify.tasks.program_task import program_task

ORIGINAL = "# the original\n"
KERNEL = "def fused_operator(x0):\n    return [x0]\n"


def verdict(candidate_ms: float | None) -> Verdict:
    """Accepted at this time against 2 ms; None: wrong values."""
    facts = {"mode": "hybrid", "device": "fake"}
    if candidate_ms is None:
        return verdicts.verdict(Code.WRONG_VALUES, **facts)
    return verdicts.verdict(times=verdicts.times(candidate=candidate_ms, reference=2.0), **facts)


REFUSED = replace(verdict(None), code=Code.RUNTIME_ERROR)


class FakeJudge:
    """Answers from a list; remembers what it was asked. Wholes inside torch.compile have a list of
    their own; without one they are refused."""

    on_gpu = True
    trusted = True

    hold = nullcontext

    def __init__(self, answers, mode: str = "hybrid", compiled=()) -> None:
        self.rules = SimpleNamespace(mode=mode, precision=Precision.STRICT, device_name="fake")
        self.answers, self.asked = iter(answers), []
        self.compiled, self.asked_compiled = iter(compiled), []

    def warm(self, task, candidates, **_):
        pass

    def rest(self):
        pass

    def start_ahead(self, *, compiles):
        pass

    def agrees(self, _task, _other):
        return True

    def verify(self, task, candidate, **_options):
        if uses_compile(candidate.source):
            self.asked_compiled.append(candidate.source)
            return next(self.compiled, REFUSED)
        self.asked.append(candidate.source)
        return self.answer(next(self.answers))

    def answer(self, candidate_ms):
        return verdict(candidate_ms)


def chain() -> Program:
    b = Builder()
    x = b.input(TensorType((4, 4)))
    for op in ("relu", "tanh", "exp"):
        [x] = b.call(op, input=x)
    return b.program([x])


def variant(layout: str, savings: tuple[float, ...]) -> Variant:
    program = chain()
    tuned = tuple(
        Tuned(
            fragment=extract(program, {i}),
            family="pointwise",
            candidates=(Candidate(source=KERNEL.replace("x0]", f"x0]  # {layout} {i}")),),
            verdicts=(verdict(1.0),),
            winner=0,
            reason="",
            saving=saving,
        )
        for i, saving in enumerate(savings)
    )
    return Variant(
        original=program,
        program=program,
        layout=layout,
        tuned=tuned,
        chosen=tuple(range(len(savings))),
    )


def target(**options) -> Target:
    return Target(
        name="chain",
        program=chain(),
        task=None,
        write=lambda text: text,
        original=ORIGINAL,
        compiled=lambda **options: f"# the original, compiled {options}\n",
        **options,
    )


def ended_search(judge, won):
    """A search whose only form is this one."""
    return SimpleNamespace(
        variants=lambda *_: [won],
        spent=lambda: Spent(1.0, 1),
        failed=[],
        tuned=won.tuned,
        interruption=None,
        judge=judge,
        budget=Budget.start(600.0),
        steps=SearchSteps(),
    )


def beaten(layout: str, *times_ms) -> Variant:
    """A form without a winner: for each fragment the times of its candidates."""
    form = variant(layout, (1.0,) * len(times_ms))
    tuned = tuple(
        replace(t, winner=None, candidates=t.candidates * len(ms), verdicts=tuple(map(verdict, ms)))
        for t, ms in zip(form.tuned, times_ms, strict=True)
    )
    return replace(form, tuned=tuned, chosen=())


def settle(judge, variants, **options):
    whole = Wholes(judge, **options).settle(variants, target())
    return whole.variant, whole.source, whole.verdict


class ScreeningJudge(FakeJudge):
    """Screens from a list: ms, or None for wrong values."""

    def screen(self, _task, candidates, **_options):
        return [verdict(next(self.answers)) for _ in candidates]


def forms_in(times_ms: list[float | None]) -> tuple[Wholes, list[str]]:
    """What is left of a rewritten form, another layout and the original, in its order."""
    found = [
        replace(variant("contiguous", (1.0,)), algebra=("sum_of_product",)),
        replace(variant("channels_last", (1.0,)), rewrites=("channels_last",)),
        variant("contiguous", (1.0,)),
    ]
    wholes = Wholes(ScreeningJudge(times_ms))
    return wholes, [each.name for each in wholes.ranked(found)]


def test_the_fastest_form_comes_first_and_all_are_recorded_with_their_times():
    wholes, names = forms_in([1.5, 1.0, None])
    assert names == ["channels_last", "contiguous, rewritten"]
    assert [form["algebra"] for form in wholes.forms] == [["sum_of_product"], [], []]
    assert [form["rewrites"] for form in wholes.forms] == [[], ["channels_last"], []]
    assert [form["code"] for form in wholes.forms] == ["ok", "ok", "wrong_values"]
    medians = [form["times"].get("optimized", {}).get("median_ms") for form in wholes.forms]
    assert medians == [1.5, 1.0, None]


def test_a_form_without_kernels_is_not_compared():
    wholes = Wholes(ScreeningJudge([1.0, 2.0]))
    without = variant("contiguous", ())
    kept = [variant("channels_last", (1.0,)), replace(variant("k_major", (1.0,)))]
    assert [form.layout for form in wholes.ranked([*kept, without])] == ["channels_last", "k_major"]
    assert sorted(form["code"] for form in wholes.forms) == ["no_kernel", "ok", "ok"]
    assert Wholes(ScreeningJudge([])).ranked([kept[0], without]) == kept[:1]
    assert Wholes(ScreeningJudge([])).ranked([without, without]) == [without]


def test_where_no_form_is_right_all_are_judged_the_original_last():
    assert forms_in([None] * 3)[1] == ["contiguous, rewritten", "channels_last", "contiguous"]


def test_the_first_layout_that_wins_is_kept():
    judge = FakeJudge([1.0])
    kept, _, found = settle(
        judge, [variant("channels_last", (1.0,)), variant("contiguous", (1.0,))]
    )
    assert kept.layout == "channels_last"
    assert found.accepted


def test_a_rejected_layout_gives_way_to_the_next_with_all_its_fragments():
    judge = FakeJudge([None, 1.0])
    kept, _, _ = settle(
        judge, [variant("channels_last", (1.0,)), variant("contiguous", (1.0, 2.0))]
    )
    assert kept.layout == "contiguous"
    assert kept.chosen == (0, 1)


def test_the_fragment_that_saves_least_is_given_back_first():
    judge = FakeJudge([None, 1.0])
    kept, source, found = settle(judge, [variant("contiguous", (3.0, 1.0, 2.0))])
    assert kept.chosen == (0, 2)
    assert "rejected with it (wrong_values)" in kept.tuned[1].reason
    assert "torch.tanh" in source
    assert found.accepted


def test_more_is_given_back_each_time_and_every_form_has_its_turn():
    """Of three fragments one first, then the other two."""
    judge = FakeJudge([None] * 4)
    forms = [variant(layout, (1.0, 3.0, 2.0)) for layout in ("channels_last", "contiguous")]
    kept, _, _ = settle(judge, forms)
    asked = [[text.count(f"# {form.layout}") for form in forms] for text in judge.asked]
    assert asked == [[3, 0], [0, 3], [2, 0], [0, 2]]
    assert kept.chosen == ()


def test_after_the_end_no_second_whole_is_judged():
    judge = FakeJudge([None, None])
    wholes = Wholes(judge, deadline=Deadline(clock_s=0.0))
    forms = [variant("channels_last", (1.0, 2.0)), variant("contiguous", (1.0, 2.0))]
    kept = wholes.settle(forms, target())
    assert kept.variant.chosen == ()
    assert ["# channels_last" in text for text in judge.asked] == [True]
    assert kept.source == ORIGINAL
    assert all("stays PyTorch" in tuned.reason for tuned in kept.variant.tuned)
    assert wholes.left_out == ["Other combinations of the kernels were not judged."]
    assert wholes.slower(forms, target()) is None


def test_a_right_whole_that_did_not_win_serves_where_no_time_is_left():
    judge = FakeJudge([2.5])
    wholes = Wholes(judge, deadline=Deadline(clock_s=0.0))
    forms = [variant("channels_last", (1.0, 2.0))]
    assert wholes.settle(forms, target()).variant.chosen == ()
    found = wholes.slower(forms, target())
    assert found.verdict.speedup == 0.8
    assert found.source == judge.asked[0]
    assert len(judge.asked) == 1


@pytest.mark.parametrize(("alone_ms", "is_alone"), [(2.2, True), (4.0, False)])
def test_of_right_wholes_that_are_slower_the_fastest_serves(alone_ms, is_alone):
    judge = FakeJudge([2.5, alone_ms])
    wholes = Wholes(judge)
    form = variant("contiguous", (1.0,))
    wholes.settle([form], target())
    found = wholes.slower([form], target())
    assert found.source == judge.asked[1 if is_alone else 0]
    assert found.verdict.speedup == 2.0 / (alone_ms if is_alone else 2.5)


def test_a_whole_that_is_slower_than_the_original_does_not_win():
    judge = FakeJudge([2.5, 1.5])
    kept, _, _ = settle(judge, [variant("contiguous", (2.0, 1.0))])
    assert kept.chosen == (0,)
    assert "slower" in kept.tuned[1].reason


def test_in_pure_mode_speed_decides_nothing():
    judge = FakeJudge([2.5], mode="pure")
    kept, _, _ = settle(judge, [variant("contiguous", (2.0, 1.0))])
    assert kept.chosen == (0, 1)


class SlowJudge(FakeJudge):
    """Accepts everything; screening takes 10 s each time."""

    def __init__(self, clock):
        super().__init__([1.0])
        self.clock = clock

    def screen(self, _task, candidates, **_options):
        self.clock.now += 10.0
        return [verdict(1.0) for _ in candidates]


def test_both_layouts_have_their_time(monkeypatch):
    b = Builder()
    [t] = b.call(
        "conv2d", input=b.input(TensorType((1, 4, 8, 8))), weight=b.input(TensorType((4, 4, 3, 3)))
    )
    for op in ("softmax", "tanh"):
        for _ in range(3):
            [t] = b.call(op, input=t, **({"dim": 1} if op == "softmax" else {}))
    program = b.program([t])
    assert tuned_after(0.0, program, monkeypatch) == {"contiguous": 2, "channels_last": 2}
    # Lowering takes its time from tuning: the budget is for both.
    late = tuned_after(60.0, program, monkeypatch)
    assert late == {"channels_last": 1, "contiguous": 0}


def test_a_layout_in_which_pytorch_is_less_exact_has_no_time(monkeypatch):
    b = Builder()
    given = [b.input(TensorType(shape)) for shape in ((1, 4, 8, 8), (4, 4, 3, 3))]
    [t] = b.call("conv2d", input=given[0], weight=given[1])
    program = b.program(b.call("softmax", input=t, dim=1))
    asked = []

    class Exact(SlowJudge):
        def agrees(self, task, other):
            asked.append([call.op for call in other.program.calls].count("to_layout"))
            return False

    def found(mode):
        judge = Exact(SimpleNamespace(now=0.0))
        judge.rules.mode = mode
        search = Search(judge, budget=Budget.start(600.0))
        return {each.layout: bool(each.tuned) for each in search.variants(program, None)}

    assert found("hybrid") == {"channels_last": False, "contiguous": True}
    assert asked == [2], "image and weights"
    assert found("pure") == {"channels_last": True, "contiguous": True}


def tuned_after(seconds: float, program: Program, monkeypatch) -> dict[str, int]:
    """Fragments tuned in each layout where the search of 72 s began so many seconds ago."""
    clock = SimpleNamespace(now=seconds)
    at_begin = Budget(72.0, Deadline(0.0, 0.0), Deadline(72.0, 72.0))
    set_clocks(monkeypatch, clock)
    monkeypatch.setattr(partition, "time", SimpleNamespace(monotonic=lambda: clock.now))
    search = Search(SlowJudge(clock), budget=at_begin)
    return {
        each.layout: len(each.tuned) for each in search.variants(program, program_task(program))
    }


def set_clocks(monkeypatch, clock, *, worked=True):
    """Both clocks of deadlines stand where the fake one stands; the clock for work may stand still,
    as it does while others are waited for."""
    monkeypatch.setattr(deadline, "worked_s", lambda: clock.now if worked else 0.0)
    monkeypatch.setattr(deadline, "time", SimpleNamespace(monotonic=lambda: clock.now))


def test_waiting_does_not_make_a_search_endless(monkeypatch):
    """Nothing of the budget is spent while others are waited for; the clock goes on."""
    program, clock = blocks(), SimpleNamespace(now=0.0)
    set_clocks(monkeypatch, clock, worked=False)

    def num_screened(wall_s: float) -> float:
        clock.now = 0.0
        budget = Budget.start(600.0, wall_s=wall_s)
        Search(SlowJudge(clock), budget=budget).variants(program, program_task(program))
        return clock.now / 10.0

    assert num_screened(math.inf) == 2
    assert num_screened(5.0) == 1
    assert num_screened(-1.0) == 0, "the time was over before"


def test_a_search_that_begins_too_late_says_so(monkeypatch):
    clock = SimpleNamespace(now=0.0)
    set_clocks(monkeypatch, clock)
    late, early = (Budget.start(seconds) for seconds in (-1.0, 600.0))
    [variant] = Search(SlowJudge(clock), budget=late).variants(blocks(), program_task(blocks()))
    assert variant.is_unproposed
    [variant] = Search(SlowJudge(clock), budget=early).variants(blocks(), program_task(blocks()))
    assert variant.tuned
    assert not variant.is_unproposed


def test_an_interrupted_search_gives_what_was_tuned(monkeypatch):
    clock = SimpleNamespace(now=0.0)

    class Interrupted(SlowJudge):
        def screen(self, task, candidates, **options):
            if self.clock.now:
                raise KeyboardInterrupt
            return super().screen(task, candidates, **options)

    search = Search(Interrupted(clock), budget=Budget.start(600.0))
    [variant] = search.variants(blocks(), program_task(blocks()))
    assert len(variant.chosen) == 3, "equal fragments"
    assert variant.num_untried == 1
    assert isinstance(search.interruption, KeyboardInterrupt)


def test_a_judgement_that_the_deadline_ends_leaves_the_fragment_to_pytorch():
    class Late(SlowJudge):
        def screen(self, *_args, **_options):
            raise OutOfTime("late")

    search = Search(Late(SimpleNamespace(now=0.0)), budget=Budget.start(600.0))
    [variant] = search.variants(blocks(), program_task(blocks()))
    assert variant.chosen == ()
    assert {each.num_cut_off > 0 for each in variant.tuned} == {True}
    assert "the budget ended" in variant.tuned[0].reason


def test_a_second_interruption_leaves_the_original():
    class Interrupting(FakeJudge):
        def verify(self, *_args, **_options):
            self.asked.append("")
            raise KeyboardInterrupt

    judge = Interrupting([])
    options = SearchOptions(beside_compile=False)
    found = search_target(target(), ended_search(judge, variant("contiguous", (1.0,))), options)
    assert len(judge.asked) == 2, "the first one leaves some seconds for another try"
    assert found.files == {"optimized.py": ORIGINAL}
    assert found.result["outcome"]["cause"] == "interrupted"
    assert found.result["interrupted_by"] == "SIGINT"


def test_what_libraries_do_well_is_tuned_last():
    b = Builder()
    x, dense = b.input(TensorType((1, 4, 8, 8))), b.input(TensorType((4, 4, 3, 3)))
    [t] = b.call("conv2d", input=x, weight=dense)
    [t] = b.call("softmax", input=t, dim=1)
    [t] = b.call("conv2d", input=t, weight=b.input(TensorType((4, 1, 3, 3))), groups=4)
    program = b.program(b.call("tanh", input=t))
    judge = SlowJudge(SimpleNamespace(now=0.0))
    found = Search(judge, budget=Budget.start(600.0)).variants(program, program_task(program))[-1]
    is_last = [0 in tuned.fragment.calls for tuned in found.tuned]
    assert is_last == sorted(is_last)
    assert is_last[-1]
    assert any({2, 3} <= tuned.fragment.calls for tuned in found.tuned[: is_last.index(True)])


def blocks() -> Program:
    """A small fragment that occurs three times, a larger one that occurs once, apart."""
    b = Builder()
    x, w = b.input(TensorType((64, 64))), b.input(TensorType((64, 64)))
    for _ in range(3):
        [x] = b.call("aten.sort.default", self=x, dim=1)[:1]
        [x] = b.call("tanh", input=x)
        [x] = b.call("add", input=x, other=w)
    [x] = b.call("aten.sort.default", self=x, dim=1)[:1]
    for op in ("relu", "exp", "tanh"):
        [x] = b.call(op, input=x)
    return b.program([x])


class WatchedJudge(SlowJudge):
    """Remembers what it compiles and screens, by the operators of the task."""

    def __init__(self):
        super().__init__(SimpleNamespace(now=0.0))
        self.events = []

    def _note(self, event, task):
        self.events.append((event, "+".join(call.op for call in task.program.calls)))

    def warm(self, task, candidates, **_):
        assert candidates
        self._note("warm", task)

    def screen(self, task, candidates, **options):
        self._note("screen", task)
        return super().screen(task, candidates, **options)


def test_what_saves_most_wherever_it_occurs_is_tuned_first_and_the_next_compiled_meanwhile():
    judge = WatchedJudge()
    search = Search(judge, budget=Budget.start(600.0))
    search.variants(blocks(), program_task(blocks()))
    assert [each for event, each in judge.events if event == "screen"][:2] == [
        "tanh+add", "relu+exp+tanh",
    ]  # fmt: skip
    assert ("warm", "relu+exp+tanh") in judge.events
    assert ("warm", "tanh+add") not in judge.events, "it is the first"


def test_where_nothing_is_kept_the_right_kernel_that_costs_least_is_judged():
    wholes = Wholes(FakeJudge([2.4]))
    found = wholes.slower([beaten("contiguous", [3.0], [2.5], [None])], target())
    assert found.verdict.accepted
    assert "# contiguous 1" in found.source
    assert wholes.slower([beaten("contiguous", [None])], target()) is None


def test_where_the_whole_refuses_a_right_kernel_the_next_one_is_judged_and_both_are_recorded():
    wholes = Wholes(FakeJudge([None, 2.9]))
    found = wholes.slower([beaten("contiguous", [2.5], [3.0])], target())
    assert found.verdict.accepted
    assert "# contiguous 1" in found.source
    judged = [(whole["form"], whole["verdict"]["code"]) for whole in wholes.judged]
    assert judged[:2] == [("kernels", "wrong_values"), ("kernels", "ok")]


def test_the_best_kernel_of_each_fragment_is_judged_before_the_second_of_any():
    judge = FakeJudge([None, None, 2.2])
    found = Wholes(judge).slower([beaten("contiguous", [2.2, 2.1], [3.0])], target())
    asked = ["# contiguous 1" in each for each in judge.asked]
    assert asked == [False, True, False]
    assert found.source == judge.asked[-1]


def test_where_one_form_is_refused_the_next_kernel_is_of_another():
    """Whatever a form's library calls do, its wholes are refused for it."""
    fast, slow = beaten("channels_last", *[[2.1]] * 3), beaten("contiguous", [9.0])
    judge = FakeJudge([None, 9.0])
    found = Wholes(judge).slower([fast, slow], target())
    assert found.verdict.accepted
    assert "# channels_last 0" in judge.asked[0]
    assert "# contiguous 0" in found.source


def test_what_a_fused_product_swallowed_is_tried_beside_the_librarys_product():
    b = Builder()
    [t] = b.call("mm", input=b.input(TensorType((4, 8))), mat2=b.input(TensorType((8, 4))))
    [t] = b.call("exp", input=t)
    program = b.program(b.call("relu", input=t))
    whole = replace(variant("contiguous", (1.0,)).tuned[0], fragment=extract(program, {0, 1, 2}))

    def is_settled(calls: set[int], mode: str = "hybrid") -> bool:
        search = Search(FakeJudge([], mode=mode), budget=Budget.start(1.0))
        return search._is_settled(program, frozenset(calls), [whole])

    assert not is_settled({1, 2})
    assert is_settled({0, 1})
    assert is_settled({1, 2}, mode="pure")


def test_a_product_is_tried_without_the_calls_that_a_fused_one_computes_for_each_tile():
    b = Builder()
    [t] = b.call("exp", input=b.input(TensorType((4, 8))))
    [t] = b.call("mm", input=t, mat2=b.input(TensorType((8, 4))))
    program = b.program(b.call("relu", input=t))
    whole = replace(variant("contiguous", (1.0,)).tuned[0], fragment=extract(program, {0, 1, 2}))
    search = Search(FakeJudge([]), budget=Budget.start(1.0))
    assert not search._is_settled(program, frozenset({1, 2}), [whole])
    assert search._is_settled(program, frozenset({0, 1}), [whole])


def test_what_another_winner_leaves_of_a_fragment_is_tried():
    program = chain()
    won = variant("contiguous", (1.0,)).tuned[0]
    first, second = (replace(won, fragment=extract(program, calls)) for calls in ({0, 1}, {1, 2}))
    search = Search(FakeJudge([], mode="pure"), budget=Budget.start(1.0))
    assert search._is_settled(program, frozenset({2}), [second])
    assert not search._is_settled(program, frozenset({2}), [first, second])
    assert search._is_settled(program, frozenset({1}), [first, second])


def test_in_pure_mode_a_call_that_several_winners_leave_of_a_fragment_is_tried():
    program = chain()
    won = variant("contiguous", (1.0,)).tuned[0]
    whole, first, last = (
        replace(won, fragment=extract(program, calls)) for calls in ({0, 1, 2}, {0}, {2})
    )
    search = Search(FakeJudge([], mode="pure"), budget=Budget.start(1.0))
    assert search._is_settled(program, frozenset({1}), [whole, first])
    assert not search._is_settled(program, frozenset({1}), [whole, first, last])


def test_when_nothing_wins_no_rewriting_is_left_either():
    """What was written is not what was accepted: it must be the original."""
    b = Builder()
    original = b.program(b.call("sigmoid", input=b.input(TensorType((4, 4)))))
    rewritten = replace(
        variant("contiguous", (1.0,)), original=original, algebra=("idle_activation",)
    )
    kept, source, found = settle(FakeJudge([None]), [rewritten])
    assert kept.chosen == ()
    assert source == ORIGINAL
    assert "the original module" in found.message


def test_when_nothing_wins_pytorch_alone_is_left_and_said_so():
    judge = FakeJudge([None, None])
    kept, source, found = settle(judge, [variant("contiguous", (1.0,))])
    assert kept.chosen == ()
    assert "the original module" in found.message
    assert source == ORIGINAL
