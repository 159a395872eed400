"""Without a step of the judge its cheat gets through; with it, `test_corpus` judges them."""

import pytest

from corpus import cheat
from kernelwright.verify import checks, judge, life, trial
from kernelwright.verify.api import verify
from kernelwright.verify.tasks import cases, program_task
from kernelwright.verify.tasks.cases import Cases
from kernelwright.verify.tasks.load import load_task
from kernelwright.verify.tasks.module_task import ModuleTask


def nothing(*_args, **_kwargs):
    return None


def no_variants(*_args, **_kwargs):
    return []


def no_weights(*_args, **_kwargs):
    return {}


everything = Cases.all
NO_PARTS = (life, "NUM_PARTS", 0)
KEEPS = (life._Life, "_check_kept", nothing)


def same_task(self, _seed):
    return self


def without_same(self):
    return (case for case in everything(self) if case.family != cases.SAME)


def without_negated(self):
    return (case for case in everything(self) if case.family in ("plain", "scaled", "far"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "replaced"),
    [
        ("one_buffer_for_all_outputs", [(checks, "check_ownership", nothing), KEEPS]),
        ("outputs_in_a_ring", [KEEPS]),
        ("memo_of_all_values", [KEEPS]),
        ("outputs_of_inference_mode", [(checks, "check_marks", nothing)]),
        ("columns_of_the_first_call", [(program_task, "larger_variant", nothing)]),
        ("second_instance_uses_the_first", [(life, "live", nothing)]),
        ("slope_of_the_constructor", [(judge, "variations", no_variants)]),
        ("identifiers_in_32_bits", [(judge, "variations", no_variants)]),
        ("kept_under_one_version", [NO_PARTS]),
        ("bias_of_zeros_left_out", [(judge, "other_weights", no_weights), NO_PARTS]),
        ("small_numbers_flushed", [(cases, "_rounds_nothing", nothing)]),
        ("weights_known_by_their_sum", [(ModuleTask, "with_permuted_weights", same_task)]),
        ("parameter_objects_kept", [(life, "DROP_IN_WAYS", life.WAYS)]),
        ("one_tensor_for_two", [(Cases, "all", without_same)]),
        ("relu_of_what_is_positive", [(Cases, "all", without_negated)]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_without_its_step_a_cheat_gets_through(monkeypatch, name, replaced):
    monkeypatch.setattr(trial, "findings", lambda *_, **__: ())
    monkeypatch.setattr(judge.Judge, "_compile", nothing)
    for replacement in replaced:
        monkeypatch.setattr(*replacement)
    entry = cheat(name)
    verdict = verify(
        load_task(entry.task),
        entry.path,
        device="cpu",
        mode=entry.mode,
        contract=entry.contract,
    )
    assert verdict.accepted, f"{verdict.code}: {verdict.message}"
