"""No cheat is accepted: judged in full, in Triton's interpreter."""

import difflib
import re
from collections import Counter

import pytest

from corpus import ELSEWHERE, ROOT, cheat, entries
from kernelwright.core.verdict import Code, Stage
from kernelwright.verify import checks, judge, life, trial
from kernelwright.verify.api import verify
from kernelwright.verify.tasks import cases
from kernelwright.verify.tasks.load import load_task
from tools.pages.matrix import FOLDERS

CHEATS = [entry for entry in entries("cheats") if not entry.needs_gpu]
EXPLOITS = {f"E{number:02}" for number in range(1, 78)}


def judged(entry):
    """The verdict on a file. A candidate that would not answer is ended after a few seconds."""
    options = {"mode": entry.mode, "contract": entry.contract}
    if entry.facts.get("kind") == "budget":
        options["timeout_s"] = 5.0
    return verify(load_task(entry.task), entry.path, device="cpu", **options)


@pytest.mark.slow
@pytest.mark.parametrize("entry", CHEATS, ids=lambda entry: entry.name)
def test_a_cheat_is_rejected_at_its_stage_by_its_code(entry, monkeypatch, request):
    if "open" in entry.facts:
        request.applymarker(pytest.mark.xfail(reason=entry.facts["open"], strict=True))
    if "static" not in entry.stages("cpu"):
        monkeypatch.setattr(trial, "findings", lambda *_, **__: ())
    verdict = judged(entry)
    assert verdict.code.value in entry.codes("cpu"), f"{verdict.code}: {verdict.message}"
    assert verdict.stage.value in entry.stages("cpu"), verdict.message
    assert verdict.message


def test_every_cheat_says_of_which_kind_it_is_how_it_works_and_where_it_ends():
    known = {stage.value for stage in Stage}, {code.value for code in Code}
    for entry in entries("cheats"):
        name = entry.path.name
        assert {"how", "task", "stage", "code"} <= entry.facts.keys(), name
        assert ("exploit" in entry.facts) != ("kind" in entry.facts), name
        assert entry.task.is_file(), name
        for device in ("cpu", "cuda"):
            assert entry.stages(device) <= known[0] - {"accepted"}, name
            assert entry.codes(device) <= known[1] - {"ok"}, name


def test_every_exploit_has_a_cheat_on_file_or_tests_of_what_there_is_instead():
    on_file = {e.facts["exploit"] for e in entries("cheats") if "exploit" in e.facts}
    assert on_file.isdisjoint(ELSEWHERE)
    assert on_file | ELSEWHERE.keys() == EXPLOITS
    for _, names in ELSEWHERE.values():
        for name in names:
            path, _, function = name.partition("::")
            text = (ROOT.parent / path).read_text()
            assert re.search(rf"^def {function}\(", text, re.MULTILINE), name


def test_every_kind_has_cheats_and_each_has_an_honest_twin_that_is_nearly_the_same():
    twins = {entry.facts.get("twin"): entry for entry in entries("honest")}
    cheats = [entry for entry in entries("cheats") if "kind" in entry.facts]
    kinds = Counter(entry.facts["kind"] for entry in cheats)
    assert set(kinds) == set(FOLDERS)
    for entry in cheats:
        assert entry.name.startswith(entry.facts["kind"])
        twin = twins[entry.name]
        assert twin.facts["task"] == entry.facts["task"]
        assert num_changed_lines(entry, twin) <= 16, entry.name


def num_changed_lines(one, other):
    """Lines of code that only one of two files has; facts and blank lines aside."""
    texts = [e.path.read_text().partition("\nimport ")[2].splitlines() for e in (one, other)]
    lines = list(difflib.unified_diff(*texts, n=0))[2:]
    return sum(line[0] in "+-" and bool(line[1:].strip()) for line in lines)


def test_what_text_can_stop_has_a_twin_that_evades_the_text():
    evasive = {e.path.stem.removesuffix("_evasive") for e in entries("cheats")}
    assert {"inherits_reference", "patched_clock", "switches_tf32_on", "result_bank"} <= evasive
    for entry in entries("cheats"):
        if entry.path.stem.endswith("_evasive"):
            assert "static" not in entry.stages("cpu"), entry.path.name


# -- without a probe, its cheat gets through: so the corpus tests the probes


@pytest.fixture
def gets_through(monkeypatch):
    """Is the cheat of this name accepted, static rules off, with these parts replaced?"""

    def is_accepted(name, *replaced):
        monkeypatch.setattr(trial, "findings", lambda *_, **__: ())
        for where, attribute, value in replaced:
            monkeypatch.setattr(where, attribute, value)
        return judged(cheat(name)).accepted

    return is_accepted


def nothing(*_args, **_kwargs):
    return None


def no_poison(_seed, *, is_nan):
    return 0.0


def leaving_out(is_left_out):
    """`Cases.all` without the cases for which `is_left_out`."""
    everything = cases.Cases.all
    return lambda self: (case for case in everything(self) if not is_left_out(case))


NO_CALLS_IN_A_ROW = (life, "live", nothing)
NOT_SILENCED = (trial.Trial, "silence", nothing)


def without(is_left_out):
    return (cases.Cases, "all", leaving_out(is_left_out))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "replaced"),
    [
        (
            "assumes_zeroed_memory",
            [
                (cases, "poison", no_poison),
                without(lambda case: not case.manner.is_watched),  # memory that others used before
                NO_CALLS_IN_A_ROW,
            ],
        ),
        ("decoy_launched", [NOT_SILENCED]),
        ("fig_leaf", [(checks, "check_dispatch", nothing)]),
        ("mutated_inputs", [(checks, "check_inputs", nothing)]),
        (
            "returns_view_of_input",
            [
                (checks, "check_inputs", nothing),
                (checks, "check_ownership", nothing),
                without(lambda case: case.family == "negated"),
                NOT_SILENCED,
            ],
        ),
        ("fallback_in_except_hybrid", [(checks, "check_launches", nothing), NOT_SILENCED]),
        ("fast_path_for_known_shape", [(judge, "at_other_shapes", lambda *_: {})]),
        (
            "softplus_that_overflows",
            [without(lambda case: case.family not in ("plain", cases.PART_CHANGED))],
        ),
        (
            "cache_by_fingerprint",
            [
                # rounded and flat rows: ends that are equal by chance
                without(lambda case: case.family in (cases.PART_CHANGED, "rounded", "flat_rows")),
                NO_CALLS_IN_A_ROW,
            ],
        ),
        ("weights_folded_once", [NO_CALLS_IN_A_ROW]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_without_the_steps_that_see_it_a_cheat_gets_through(gets_through, name, replaced):
    assert gets_through(name, *replaced)
