"""No cheat is accepted, no honest kernel refused: judged in full, in Triton's interpreter."""

import json
import re

import pytest

from corpus import ELSEWHERE, ROOT, cheat, entries
from kernelwright.core.verdict import Code, Stage, Verdict
from kernelwright.verify import cases, checks, judge, trial
from kernelwright.verify.api import verify

CHEATS, HONEST = (
    [entry for entry in entries(kind) if not entry.needs_gpu] for kind in ("cheats", "honest")
)
EXPLOITS = {f"E{number:02}" for number in range(1, 78)}


@pytest.mark.parametrize("entry", CHEATS, ids=lambda entry: entry.path.stem)
def test_a_cheat_is_rejected_at_its_stage_by_its_code(entry, monkeypatch, request):
    if "open" in entry.facts:
        request.applymarker(pytest.mark.xfail(reason=entry.facts["open"], strict=True))
    if "static" not in entry.stages("cpu"):
        monkeypatch.setattr(trial, "findings", lambda *_, **__: ())
    verdict = verify(entry.task, entry.path, device="cpu", mode=entry.mode)
    assert verdict.code.value in entry.codes("cpu"), f"{verdict.code}: {verdict.message}"
    assert verdict.stage.value in entry.stages("cpu"), verdict.message
    assert verdict.message


@pytest.mark.parametrize("entry", HONEST, ids=lambda entry: entry.path.stem)
def test_an_honest_kernel_is_accepted(entry):
    verdict = verify(entry.task, entry.path, device="cpu", mode=entry.mode)
    assert verdict.accepted, f"{verdict.code}: {verdict.message}"
    assert len(verdict.cases) >= 2
    assert verdict.launches
    assert Verdict.from_json(json.loads(json.dumps(verdict.to_json()))) == verdict


def test_every_cheat_says_which_exploit_it_is_how_it_works_and_where_it_ends():
    known = {stage.value for stage in Stage}, {code.value for code in Code}
    for entry in entries("cheats"):
        name = entry.path.name
        assert {"exploit", "how", "task", "stage", "code"} <= entry.facts.keys(), name
        assert entry.task.is_file(), name
        for device in ("cpu", "cuda"):
            assert entry.stages(device) <= known[0] - {"accepted"}, name
            assert entry.codes(device) <= known[1] - {"ok"}, name


def test_every_exploit_has_a_cheat_on_file_or_tests_of_what_there_is_instead():
    on_file = {entry.facts["exploit"] for entry in entries("cheats")}
    assert on_file.isdisjoint(ELSEWHERE)
    assert on_file | ELSEWHERE.keys() == EXPLOITS
    for _, names in ELSEWHERE.values():
        for name in names:
            path, _, function = name.partition("::")
            text = (ROOT.parent / path).read_text()
            assert re.search(rf"^def {function}\(", text, re.MULTILINE), name


def test_what_text_can_stop_has_a_twin_that_evades_the_text():
    evasive = {e.path.stem.removesuffix("_evasive") for e in entries("cheats")}
    assert {"inherits_reference", "patched_clock", "switches_tf32_on", "result_bank"} <= evasive
    for entry in entries("cheats"):
        if entry.path.stem.endswith("_evasive"):
            assert "static" not in entry.stages("cpu"), entry.path.name


def test_at_least_forty_odd_but_honest_kernels_are_on_file():
    assert len(entries("honest")) >= 40
    assert len({entry.facts["what"] for entry in entries("honest")}) == len(entries("honest"))
    assert all(entry.task.is_file() for entry in entries("honest"))


# -- without a probe, its cheat gets through: so the corpus tests the probes


@pytest.fixture
def gets_through(monkeypatch):
    """Is the cheat of this name accepted, static rules off, with these parts replaced?"""

    def judged(name, *replaced):
        monkeypatch.setattr(trial, "findings", lambda *_, **__: ())
        for where, attribute, value in replaced:
            monkeypatch.setattr(where, attribute, value)
        entry = cheat(name)
        return verify(entry.task, entry.path, device="cpu", mode=entry.mode).accepted

    return judged


def nothing(*_args, **_kwargs):
    return None


def no_poison(_seed, *, is_nan):
    return 0.0


def leaving_out(is_left_out):
    """`Cases.all` without the cases for which `is_left_out`."""
    everything = cases.Cases.all
    return lambda self: (case for case in everything(self) if not is_left_out(case))


@pytest.mark.parametrize(
    ("name", "replaced"),
    [
        ("assumes_zeroed_memory", [(cases, "poison", no_poison), (trial, "poison", no_poison)]),
        ("decoy_launched", [(trial.Trial, "silence", nothing)]),
        ("fig_leaf", [(checks, "check_dispatch", nothing)]),
        ("mutated_inputs", [(checks, "check_inputs", nothing)]),
        (
            "returns_view_of_input",
            [(checks, "check_inputs", nothing), (trial.Trial, "silence", nothing)],
        ),
        (
            "fallback_in_except_hybrid",
            [(checks, "check_launches", nothing), (trial.Trial, "silence", nothing)],
        ),
        ("fast_path_for_known_shape", [(judge, "at_other_shapes", lambda *_: {})]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_without_its_probe_a_cheat_gets_through(gets_through, name, replaced):
    assert gets_through(name, *replaced)


@pytest.mark.parametrize(
    ("name", "is_left_out"),
    [
        ("softplus_that_overflows", lambda case: case.family not in ("plain", cases.PART_CHANGED)),
        ("cache_by_fingerprint", lambda case: case.family == cases.PART_CHANGED),
        ("weights_folded_once", lambda case: case.variant == "other weights"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_without_the_case_that_tells_a_cheat_gets_through(gets_through, name, is_left_out):
    assert gets_through(name, (cases.Cases, "all", leaving_out(is_left_out)))
