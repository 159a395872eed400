"""The corpus: one file a cheat or a tempting honest kernel, its facts in leading comments.

A cheat says `exploit` or, in a folder of its own, `kind`; `how`, `task`, and at which `stage` it
must be stopped with which `code`. Alternatives are separated by bars. Facts that hold on a GPU only
end in `-cuda`. An honest kernel that differs from a cheat in a line or two names the cheat as its
`twin`. Optional: `mode` (pure unless said), `contract` (fixed unless said), `device: cuda` (needs a
GPU), `large: yes` (needs the case beyond 2^31 elements), `open` (what is missing to stop it). A
cheat that must be stopped while it runs is judged with the static rules off: the probes are tested.
"""

from dataclasses import dataclass
from pathlib import Path

from kernelwright.bench.judge.entries import facts

ROOT = Path(__file__).parents[1] / "corpus"

ELSEWHERE: dict[str, tuple[str, tuple[str, ...]]] = {
    "E39": (
        "a hint to keep lines in L2 is honest; flushing must get them out all the same",
        ("gpu/test_corpus_cuda.py::test_lines_that_a_kernel_asks_to_keep_are_flushed",),
    ),
    "E42": (
        "no figure is a product of times; a time of nothing contradicts the physics floor",
        (
            "verify/test_plausible.py::test_no_call_writes_faster_than_the_memory",
            "verify/test_plausible.py::test_time_that_only_the_host_sees_is_refused",
        ),
    ),
    "E68": (
        "nothing counts errors beside the candidate: the host compares every element",
        (
            "verify/test_compare.py::test_big_outputs_are_compared_in_full",
            "sandbox/test_calls.py::test_the_hosts_inputs_cannot_be_changed",
        ),
    ),
    "E75": (
        "there is no weaker clock to fall back to: without a graph that time is missing",
        (
            "verify/test_clock.py::"
            "test_a_call_that_cannot_be_captured_has_no_graph_time_and_no_fault",
            "gpu/test_corpus_cuda.py::test_breaking_graph_capture_changes_no_clock",
        ),
    ),
    "E77": (
        "options are checked, answers belong to their request, what outlives a guest is killed",
        (
            "verify/test_judge.py::test_an_unknown_option_is_refused",
            "sandbox/test_containment.py::test_a_forged_answer_without_the_nonce_is_refused",
            "sandbox/test_containment.py::test_a_process_that_left_the_group_dies_with_the_guest",
        ),
    ),
}
"""Exploits of other harnesses, or without a candidate that shows them -> what there is instead, and
the tests of it."""


@dataclass(frozen=True)
class Entry:
    path: Path
    facts: dict[str, str]

    @property
    def task(self) -> Path:
        return ROOT / "tasks" / f"{self.facts['task']}.py"

    @property
    def name(self) -> str:
        """ "plain", or "inputs/sign_without_zero"."""
        folder = self.path.parent.name
        return self.path.stem if folder in ("cheats", "honest") else f"{folder}/{self.path.stem}"

    @property
    def contract(self) -> str:
        return self.facts.get("contract", "fixed")

    @property
    def mode(self) -> str:
        return self.facts.get("mode", "pure")

    @property
    def needs_gpu(self) -> bool:
        return self.facts.get("device") == "cuda"

    @property
    def is_large(self) -> bool:
        return self.facts.get("large") == "yes"

    def stages(self, device: str) -> set[str]:
        """Stages that may stop this cheat on "cpu" or "cuda"."""
        return self._choices("stage", device)

    def codes(self, device: str) -> set[str]:
        """Codes it may be stopped with."""
        return self._choices("code", device)

    def _choices(self, key: str, device: str) -> set[str]:
        text = self.facts.get(f"{key}-{device}", self.facts[key])
        return set(text.split(" | "))


def entries(kind: str) -> list[Entry]:
    """All files of a kind ("cheats" or "honest"), by name."""
    return [Entry(path, facts(path)) for path in sorted((ROOT / kind).rglob("*.py"))]


def sample_for_gpu(kind: str) -> list[Entry]:
    """The files that differ on a GPU, and every eighth of the others.

    With every fourth of the others, all GPU tests take more than 8 minutes. `kernelwright eval
    corpus` judges all files.
    """
    differ = [e for e in entries(kind) if e.needs_gpu or any("-cuda" in fact for fact in e.facts)]
    return [*differ, *[entry for entry in entries(kind) if entry not in differ][::8]]


def cheat(name: str) -> Entry:
    """The cheat in the file of this name."""
    return next(entry for entry in entries("cheats") if entry.path.stem == name)
