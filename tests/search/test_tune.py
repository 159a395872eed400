"""Which candidate of a fragment wins, by times."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from verdicts import timing, verdict

from kernelwright.core.candidate import Candidate
from kernelwright.core.verdict import Precision
from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.fragments.fragment import extract
from kernelwright.search.sources import Writers, Writing
from kernelwright.search.tune import Tuned, rival_of, tune
from kernelwright.timing.deadline import NEVER


def tuned(candidate_ms: float, *, mode="hybrid", compiled_ms: float | None = 1.0, is_whole=False):
    """A fragment whose only candidate took so long; PyTorch takes 3 ms."""
    times = {"reference": timing(3.0), "candidate": timing(candidate_ms)}
    if compiled_ms is not None:
        times["compiled"] = timing(compiled_ms)
    judge = SimpleNamespace(
        on_gpu=True,
        rules=SimpleNamespace(mode=mode, precision=Precision.STRICT),
        screen=lambda *_, **__: [verdict(mode=mode, times=times)],
    )
    sources = SimpleNamespace(written=lambda *_, **__: ([Candidate(source="kernel")], []))
    builder = Builder()
    x = builder.input(TensorType((4, 4)))
    fragment = extract(builder.program(builder.call("relu", input=x)), {0})
    writing = Writing(Writers.TEACHER, limit=4, seed=0)
    return tune(fragment, judge, sources, writing, deadline=NEVER, is_whole=is_whole)


def test_a_kernel_must_save_time_over_torch_compile():
    assert tuned(0.9).winner == 0
    assert tuned(0.9).reason == "1.11x of torch.compile: 1 -> 0.9 ms"
    assert tuned(0.99).winner is None
    assert tuned(0.99).reason == "stays PyTorch: best 0.99 ms, torch.compile 1 ms"
    assert tuned(1.5).winner is None, "twice as fast as PyTorch, which nobody needs to run"


def test_without_torch_compile_pytorch_is_the_rival():
    assert tuned(2.0, compiled_ms=None).reason == "1.50x of PyTorch: 3 -> 2 ms"


@pytest.mark.parametrize(("candidate_ms", "winner"), [(0.99, 0), (1.01, 0), (1.05, None)])
def test_a_kernel_for_the_whole_program_may_tie(candidate_ms, winner):
    """The contest compares calls with their launches."""
    found = tuned(candidate_ms, is_whole=True)
    assert found.winner == winner
    assert (found.saving > 0) is (winner is not None)


def test_in_pure_mode_the_fastest_wins_whatever_it_takes():
    assert tuned(9.0, mode="pure").winner == 0


def test_the_rival_is_named():
    times = {"reference": timing(3.0), "candidate": timing(1.0)}
    assert rival_of(times) == ("PyTorch", timing(3.0))
    assert rival_of(times | {"compiled": timing(2.0)}) == ("torch.compile", timing(2.0))


def test_results_of_two_writers_name_the_same_candidates_as_before():
    """The candidates of the other writer come first, so numbers of this one's move."""
    first = replace(numbered("a", "b"), rejected=(1,), winner=0, saving=1.0)
    second = replace(numbered("c", "d", "e"), rejected=(0, 2), winner=1, saving=2.0)
    both = second.beside(first)
    assert [both.candidates[i].source for i in both.rejected] == ["b", "c", "e"]
    assert both.best == Candidate(source="d")
    assert first.beside(second).best == Candidate(source="d")


def numbered(*sources: str) -> Tuned:
    return replace(tuned(0.9), candidates=tuple(Candidate(source=source) for source in sources))
