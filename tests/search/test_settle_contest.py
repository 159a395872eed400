"""Which whole is kept after a contest: the fastest that is right, and never one slower than
torch.compile."""

from dataclasses import replace

import pytest
from test_settle import ORIGINAL, FakeJudge, ended_search, target, variant, verdict

from kernelwright.core.errors import OutOfTime
from kernelwright.core.verdict import Code
from kernelwright.search.contest import entries as entries_module
from kernelwright.search.contest import settling as settling_module
from kernelwright.search.contest.contest import Contest
from kernelwright.search.contest.entries import entries
from kernelwright.search.contest.wholes import Wholes
from kernelwright.search.optimize import search_target
from kernelwright.search.options import SearchOptions
from kernelwright.search.variant import ServedForm

SAVINGS = (3.0, 1.0)
CALLED = ("compiled_kernels", "kernels", "fewer")
GRAPHS = ("compiled_kernels graph", "kernels graph")
GRAPHED = {"write_graphed": lambda text: f"# graphed\n{text}"}


def held(times_ms, *, right=("compiled",), **options):
    """A contest with these medians; the entries of one variant, "kernels" and so on, by their last
    word."""
    wholes = entries([variant("contiguous", SAVINGS)], target(**options))
    names = {_short(entry): entry.name for entry in wholes}
    samples = {names.get(name, name): [ms] * 3 for name, ms in times_ms.items()}
    return Contest(samples=samples, right=right), wholes


def _short(entry):
    if len(entry.variant.chosen) < len(SAVINGS):
        return "fewer"
    return f"{entry.served.value} graph" if entry.is_graph else entry.served.value


def settled(times_ms, answers=(), compiled=(), *, right=("compiled",), **options):
    judge = FakeJudge(answers, compiled=compiled)
    contest, wholes = held(times_ms, right=right, **options)
    settling = Wholes(judge)
    return settling.settle_contest(contest, wholes, target(**options)), judge, settling


def test_each_way_to_call_a_whole_takes_part_and_fewer_kernels_too():
    wholes = entries([variant("contiguous", SAVINGS)], target(**GRAPHED))
    assert [_short(entry) for entry in wholes] == [*CALLED, *GRAPHS]
    assert len({entry.name for entry in wholes}) == 5
    assert "torch.compile(" in wholes[0].source
    assert "layout_optimization" in wholes[0].exact
    least = wholes[2].variant
    assert [least.tuned[i].saving for i in least.chosen] == [3.0]


def test_one_fragment_of_all_calls_leaves_nothing_to_inductor():
    whole = variant("contiguous", (1.0,))
    calls = frozenset(range(len(whole.program.calls)))
    [tuned] = whole.tuned
    covering = replace(tuned, fragment=replace(tuned.fragment, calls=calls))
    found = entries([replace(whole, tuned=(covering,))], target())
    assert [entry.served for entry in found] == [ServedForm.KERNELS]


def test_a_recurrent_layer_that_no_kernel_has_is_not_compiled(monkeypatch):
    """Inductor would compile a copy of each step."""
    whole = variant("contiguous", (3.0, 1.0))
    ops = [call.op for call in whole.program.calls]

    def ways(recurrent):
        monkeypatch.setattr(entries_module, "RECURRENT", {recurrent: 1})
        return [_short(entry) for entry in entries([whole], target(**GRAPHED))]

    assert ways("aten.lstm.input") == [*CALLED, *GRAPHS]
    assert ways(ops[0]) == [*CALLED, *GRAPHS], "in both"
    assert ways(ops[1]) == [*CALLED[:2], *GRAPHS], "the second fragment has it"
    assert ways(ops[-1]) == ["kernels", "kernels graph"], "no fragment has it"


def test_the_fastest_right_entry_is_kept():
    times = {"eager": 4.0, "compiled": 3.0, "kernels": 2.0, "compiled_kernels": 1.0}
    whole, judge, _ = settled(times, compiled=[verdict(1.0)])
    assert whole.served is ServedForm.COMPILED_KERNELS
    assert whole.contender.endswith("compiled_kernels")
    assert judge.asked == [], "nobody needs a verdict on the slower ones"


def test_a_rejected_entry_gives_way_to_the_next():
    times = {"eager": 4.0, "compiled": 3.0, "kernels": 2.0, "compiled_kernels": 1.0}
    whole, judge, settling = settled(times, answers=[2.0])
    assert whole.served is ServedForm.KERNELS
    assert len(judge.asked_compiled) == 1
    assert len(settling.refused) == 1


def test_layouts_that_make_a_library_inexact_are_left_out_once():
    times = {"eager": 4.0, "compiled": 3.0, "compiled_kernels": 1.0}
    whole, judge, _ = settled(times, compiled=[verdict(None), verdict(1.2)])
    assert whole.served is ServedForm.COMPILED_KERNELS
    assert "layout_optimization" in whole.source
    assert ["layout_optimization" in text for text in judge.asked_compiled] == [False, True]


@pytest.mark.parametrize("rival", ["eager", "compiled"])
def test_nothing_slower_than_a_rival_is_kept(rival):
    times = {"eager": 4.0, "compiled": 3.0} | {rival: 0.5, "kernels": 1.0}
    whole, judge, _ = settled(times)
    assert whole.served is ServedForm.ORIGINAL
    assert judge.asked == []


def test_a_torch_compile_of_wrong_values_beats_nothing():
    times = {"eager": 4.0, "compiled": 0.5, "kernels": 1.0}
    whole, _, _ = settled(times, answers=[1.0], right=())
    assert whole.served is ServedForm.KERNELS


@pytest.mark.parametrize("served", [ServedForm.KERNELS, ServedForm.COMPILED_KERNELS])
def test_a_graph_says_what_its_kernels_take_without_it(served):
    times = {"eager": 4.0, "compiled": 3.0, served.value: 2.0, f"{served.value} graph": 1.0}
    accepted = {"answers": [1.0], "compiled": [verdict(1.0)]}
    whole, _, settling = settled(times, **accepted, **GRAPHED)
    assert whole.source.startswith("# graphed")
    assert whole.served is served
    assert whole.launched_ms == 2.0
    assert settling.judged[0]["is_graph"]


def test_a_graph_that_is_inexact_is_judged_without_layout_optimization():
    times = {"eager": 4.0, "compiled": 3.0, "compiled_kernels graph": 1.0}
    inexact = verdict(None)
    whole, judge, settling = settled(times, compiled=[inexact, verdict(1.0)], **GRAPHED)
    assert whole.source.startswith("# graphed")
    assert "layout_optimization" in whole.source
    assert [entry["is_graph"] for entry in settling.judged] == [True, True]
    assert len(judge.asked_compiled) == 2


def test_where_all_are_rejected_fewer_kernels_must_still_reach_torch_compile():
    """The judge times 2 ms for PyTorch, so torch.compile of two thirds takes 1.33 ms."""
    times = {"eager": 3.0, "compiled": 2.0, "kernels": 1.0}
    whole, judge, _ = settled(times, answers=[None, 1.2])
    assert len(judge.asked) == 2
    assert len(whole.variant.chosen) == 1
    slow, _, _ = settled(times, answers=[None, 1.5])
    assert slow.served is ServedForm.ORIGINAL


def test_past_the_end_the_original_stays():
    class Late(FakeJudge):
        def verify(self, *_args, **_options):
            raise OutOfTime

    contest, wholes = held({"eager": 4.0, "kernels": 1.0})
    settling = Wholes(Late([]))
    assert settling.settle_contest(contest, wholes, target()).served is ServedForm.ORIGINAL
    assert settling.left_out


def outcome(monkeypatch, contests, answers=(), *, chosen=SAVINGS):
    """What a search delivers whose fragments won, after these contests."""
    judge = FakeJudge(answers)
    won = variant("contiguous", chosen)
    left = iter(contests)
    monkeypatch.setattr(settling_module, "hold_contest", lambda *_, **__: next(left))
    return search_target(target(), ended_search(judge, won), SearchOptions())


def test_a_search_delivers_torch_compile_where_that_is_the_fastest(monkeypatch):
    contest, _ = held({"eager": 4.0, "compiled": 1.0, "kernels": 2.0})
    found = outcome(monkeypatch, [contest])
    assert found.result["form"] == "compiled"
    assert found.files["optimized.py"].startswith("# the original, compiled")
    assert found.result["outcome"]["status"] == "unchanged"
    assert "torch.compile" in found.result["outcome"]["message"]
    assert set(found.result["times"]) == {"eager", "compiled"}


def test_a_search_delivers_torch_compile_with_cuda_graphs_where_that_is_the_fastest(monkeypatch):
    times = {"eager": 4.0, "compiled": 2.0, "compiled_graphs": 1.0, "kernels": 1.5}
    contest, _ = held(times, right=("compiled", "compiled_graphs"))
    found = outcome(monkeypatch, [contest])
    assert found.result["form"] == "compiled"
    assert "'is_graph': True" in found.files["optimized.py"]
    assert "inside torch.compile with CUDA graphs" in found.result["outcome"]["message"]
    assert found.result["times"]["optimized"]["median_ms"] == 1.0
    assert found.result["speedups"]["over_compile"][0] == 2.0


def test_kernels_are_judged_alone_where_the_contest_timed_none_of_them(monkeypatch):
    """The deadline came after PyTorch and torch.compile were timed."""
    first = Contest(samples={"eager": [4.0], "compiled": [2.0]}, right=["compiled"])
    none = Contest()
    found = outcome(monkeypatch, [first, none], answers=[1.0], chosen=(1.0,))
    assert found.result["form"] == "kernels"
    found = outcome(monkeypatch, [first, none], answers=[3.0], chosen=(1.0,))
    assert found.result["form"] == "compiled", "slower than torch.compile"


def test_a_search_delivers_the_original_where_pytorch_is_the_fastest(monkeypatch):
    contest, _ = held({"eager": 1.0, "compiled": 2.0, "kernels": 2.0})
    found = outcome(monkeypatch, [contest])
    assert found.result["form"] == "original"
    assert found.files["optimized.py"] == ORIGINAL


def test_a_search_tells_how_its_whole_did_in_the_contest(monkeypatch):
    contest, _ = held({"eager": 4.0, "compiled": 3.0, "kernels": 2.0})
    found = outcome(monkeypatch, [contest], answers=[2.0])
    assert found.result["form"] == "kernels"
    assert found.result["speedups"]["over_compile"][0] == 1.5
    assert found.result["times"]["optimized"]["median_ms"] == 2.0


def test_a_whole_that_took_no_part_is_timed_before_it_is_delivered(monkeypatch):
    """Kernels were given back after the contest."""
    first, _ = held({"eager": 3.0, "compiled": 2.0, "kernels": 1.0})
    name = "contiguous, 1 fragments, kernels"
    last = Contest(samples={"eager": [3.0], "compiled": [2.0], name: [2.5]}, right=["compiled"])
    found = outcome(monkeypatch, [first, last], answers=[None, 1.2])
    assert found.result["form"] == "compiled"
    assert found.whole.verdict.code is Code.NO_KERNEL
