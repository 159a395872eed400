"""What is checked of one call: state, ownership and structure, under both contracts."""

import pytest
import torch

from kernelwright.core.verdict import Code
from kernelwright.sandbox.shared.contract import Ran
from kernelwright.verify import checks
from kernelwright.verify.rejection import Rejected
from kernelwright.verify.session import Called
from kernelwright.verify.tasks.answer import ReferenceAnswer
from kernelwright.verify.values.compare import Expected

ONES = torch.ones(4)


def expected(value):
    return Expected(native=(value,), oracle=(value.double(),))


def answer(**facts):
    return ReferenceAnswer(**{"outputs": expected(ONES), "structure": "T", **facts})


def ran(**facts):
    facts = {"outputs": (ONES,), "structure": "T", "changed_inputs": (), "aliases": (), **facts}
    return Ran(**facts)


def called(before=None, state=None, attributes=None):
    return Called(ran(), before or {}, state or {}, attributes or {})


def code(check, *args, **options):
    """None where the check passes."""
    try:
        check(*args, **options)
    except Rejected as rejected:
        return rejected.code
    return None


def state_code(one, wanted, *, is_drop_in=False):
    return code(checks.check_state, one, wanted, "strict", is_drop_in=is_drop_in)


@pytest.mark.parametrize(
    ("mine", "wanted", "fixed", "drop_in"),
    [
        ("[T,T]", "[T,T]", None, None),
        ("(T,T)", "[T,T]", None, Code.WRONG_STRUCTURE),
        ("T", "[T]", None, Code.WRONG_STRUCTURE),
        ("[T]", "[T,T]", Code.WRONG_STRUCTURE, Code.WRONG_STRUCTURE),
        ("(T,None)", "(T,T)", Code.WRONG_STRUCTURE, Code.WRONG_STRUCTURE),
        ("Lazy", "T", Code.WRONG_STRUCTURE, Code.WRONG_STRUCTURE),
    ],
)
def test_containers_must_be_the_references_under_drop_in_alone(mine, wanted, fixed, drop_in):
    pair = ran(structure=mine), answer(structure=wanted)
    assert code(checks.check_structure, *pair) is fixed
    assert code(checks.check_structure, *pair, is_exact=True) is drop_in


def test_a_statistic_that_the_reference_moves_must_move_alike():
    wanted = answer(state={"mean": expected(2 * ONES)})
    before = {"mean": ONES}
    assert state_code(called(before, {"mean": 2 * ONES}), wanted) is None
    assert state_code(called(before, {"mean": ONES}), wanted) is Code.STATE_DIFFERS
    assert state_code(called(before, {}), wanted) is Code.STATE_DIFFERS


def test_a_counter_that_is_missing_matters_under_drop_in_alone():
    wanted = answer(state={"calls": expected(torch.tensor([3]))})
    assert state_code(called(), wanted) is None
    assert state_code(called(), wanted, is_drop_in=True) is Code.STATE_DIFFERS


def test_what_the_reference_leaves_must_stay():
    assert state_code(called({"weight": ONES}, {"weight": ONES}), answer()) is None
    moved = called({"weight": ONES}, {"weight": ONES + 1})
    assert state_code(moved, answer()) is Code.STATE_DIFFERS


@pytest.mark.parametrize(
    ("value", "wanted", "code"),
    [
        (3, 3, None),
        (2, 3, Code.STATE_DIFFERS),
        (1.0001, 1.0, None),
        (1.01, 1.0, Code.STATE_DIFFERS),
        (float("nan"), float("nan"), None),
        ({"type": "Tensor"}, 3, None),
        ("a", "b", Code.STATE_DIFFERS),
    ],
)
def test_attributes_of_the_same_names_must_change_alike(value, wanted, code):
    one = called(attributes={"calls": value})
    assert state_code(one, answer(attributes={"calls": wanted})) is code


def test_a_missing_attribute_matters_under_drop_in_alone():
    wanted = answer(attributes={"calls": 1})
    assert state_code(called(), wanted) is None
    assert state_code(called(), wanted, is_drop_in=True) is Code.STATE_DIFFERS


@pytest.mark.parametrize(
    ("facts", "allowed"),
    [
        ({"shared": ((0, 1),)}, {"shared": frozenset({(0, 1)})}),
        ({"held": (0,)}, {"held": frozenset({0})}),
        ({"overwritten": (0,)}, {"held": frozenset({0})}),
        ({"overwritten": (1,)}, {"aliases": frozenset({(1, 0)})}),
    ],
)
def test_outputs_share_memory_only_where_the_references_do(facts, allowed):
    assert code(checks.check_ownership, ran(**facts), answer()) is Code.ALIASED
    assert code(checks.check_ownership, ran(**facts), answer(**allowed)) is None


def test_an_output_that_is_an_input_excuses_no_other_that_is_overwritten():
    wanted = answer(aliases=frozenset({(0, 0)}))
    assert code(checks.check_ownership, ran(overwritten=(0, 1)), wanted) is Code.ALIASED


def test_outputs_that_autograd_refuses_are_refused():
    check, plain = checks.check_marks, ran()
    assert check(plain, is_drop_in=True) == ""
    with pytest.raises(Rejected, match="requires gradients"):
        check(ran(grad=(1,)), is_drop_in=False)
    assert "torch.no_grad" in check(ran(inference=(0,)), is_drop_in=False)
    with pytest.raises(Rejected, match="inference tensor"):
        check(ran(inference=(0,)), is_drop_in=True)


def test_an_input_is_changed_as_the_reference_changes_it():
    def inputs_code(one, wanted):
        return code(checks.check_inputs, one, wanted, "strict")

    in_place = answer(inputs={0: expected(2 * ONES)})
    good = ran(changed_inputs=(0,), inputs_after=(2 * ONES,))
    assert inputs_code(good, in_place) is None
    assert inputs_code(good, answer()) is Code.INPUT_CHANGED
    assert inputs_code(ran(inputs_after=(ONES,)), in_place) is Code.STATE_DIFFERS
    assert inputs_code(ran(aliases=((0, 0),)), answer()) is Code.ALIASED
    allowed = answer(aliases=frozenset({(0, 0)}))
    assert inputs_code(ran(aliases=((0, 0),)), allowed) is None


def test_values_that_leave_are_told_apart_from_operators():
    with pytest.raises(Rejected, match=r"leave PyTorch.*: numpy$"):
        checks.check_dispatch(ran(operators={"leaves.numpy": 1, "aten.relu.default": 1}))
    with pytest.raises(Rejected, match=r"computes in the call: aten\.relu\.default"):
        checks.check_dispatch(ran(operators={"aten.relu.default": 1}))
