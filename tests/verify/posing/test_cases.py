"""Which cases there are, what they are made of, and what each decides."""

import math
import random
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import InfraError, UsageError
from kernelwright.core.verdict import Code, Contract, Precision
from kernelwright.programs.draws.families import FAMILIES
from kernelwright.verify import judge as judging
from kernelwright.verify.judge import Judge
from kernelwright.verify.judging import JudgeOptions, Rules
from kernelwright.verify.tasks import alike
from kernelwright.verify.tasks import cases as module
from kernelwright.verify.tasks.alike import permuted, swapped, with_parts_of
from kernelwright.verify.tasks.cases import (
    MIN_CASES,
    PART_CHANGED,
    PERMUTED,
    SAME,
    SWAPPED,
    Case,
    Cases,
    case_of,
    manner_of,
)
from kernelwright.verify.tasks.module_task import ModuleTask
from kernelwright.verify.tasks.task import CPU, FunctionTask

RULES = Rules(CPU, Precision.STRICT, "pure")
DROP_IN = replace(RULES, contract=Contract.DROP_IN)


def task_of(function, *makes):
    makes = makes or (lambda: torch.randn(8, 8),)
    return FunctionTask(name="t", get_inputs=lambda: [m() for m in makes], function=function)


def cases_of(function=torch.relu, *makes, rules=RULES, foreign=(), **variants):
    base = task_of(function, *makes)
    return Cases({"base": base, **variants}, rules, 3, frozenset(foreign))


def case(family="plain", variant="base"):
    return Case(variant, family, 1, math.nan)


def test_every_variant_is_plain_once_and_the_base_has_every_family_and_more_plain_draws():
    kinds = [(c.variant, c.family) for c in cases_of(other=task_of(torch.relu)).all()]
    assert kinds[:2] == [("base", "plain"), ("other", "plain")]
    families = {family for variant, family in kinds if variant == "base"}
    assert families == {*FAMILIES, PART_CHANGED, PERMUTED, SAME, SWAPPED}
    assert kinds.count(("base", "plain")) == 3
    assert kinds.count(("other", "plain")) == 1


def test_cases_are_the_same_each_time_and_others_under_another_seed():
    cases = cases_of()
    assert list(cases.all()) == list(cases.all())
    seeds = [c.seed for c in cases.all()]
    assert len(set(seeds)) == len(seeds)
    assert set(seeds).isdisjoint(c.seed for c in Cases(cases.variants, RULES, 4).all())


def test_poison_alternates_and_some_calls_are_as_a_user_calls_but_not_the_first():
    all_cases = list(cases_of().all())
    assert [math.isnan(c.poison) for c in all_cases[:4]] == [True, False, True, False]
    assert all_cases[0].manner.is_watched
    assert any(not c.manner.is_watched for c in all_cases)
    assert {c.manner.has_grad for c in all_cases} == {True, False}
    assert [at for at, c in enumerate(all_cases) if c.manner.is_inference][:2] == [4, 14]
    assert not any(c.manner.is_inference and c.manner.is_watched for c in all_cases)
    assert any(c.manner.traces_memory for c in all_cases)


@given(number=st.integers(0, 1000), seed=st.integers(0, 1000))
def test_a_manner_is_within_its_bounds(number, seed):
    manner = manner_of(random.Random(seed), number, 7)
    assert 1 <= manner.num_threads <= module.MAX_THREADS
    assert 0 <= manner.clock_s < module.MAX_FAR_AHEAD_S
    assert not manner.keeps_objects


def test_configurations_of_autotuners_are_forced_one_after_the_other_in_watched_calls():
    manners = [manner_of(random.Random(0), number, 7) for number in range(30)]
    turns = [manner.turn for manner in manners if manner.turn is not None]
    assert turns == list(range(7, 16))
    assert all(manner.is_watched for manner in manners if manner.turn is not None)


def test_further_cases_make_up_for_those_that_are_not_defined():
    cases = cases_of()
    assert list(cases.further(MIN_CASES)) == []
    all_cases = list(cases.further(2))
    assert len(all_cases) == MIN_CASES - 2
    assert {(c.variant, c.family) for c in all_cases} == {("base", "plain")}
    assert {c.seed for c in all_cases}.isdisjoint(c.seed for c in cases.all())


SUM = (lambda x: x.sum(-1), lambda: torch.randn(8, 8))


@pytest.mark.parametrize(
    ("function", "family", "is_advisory"),
    [
        (torch.relu, "plain", False),
        (torch.relu, "scaled", False),
        (torch.relu, "extreme", False),
        (SUM[0], "extreme", True),
        (torch.relu, "special", True),
        (torch.nan_to_num, "special", False),
        (lambda x: torch.isnan(x), "special", False),
        (torch.isfinite, "special", False),  # runs as abs, ne, eq and mul
        (lambda x: torch.where(x != x, 0, x), "special", False),
        (lambda x: torch.where(x != 0, x, 1), "special", True),
        (torch.nansum, "special", False),
    ],
)
def test_what_honest_kernels_do_otherwise_is_advisory(function, family, is_advisory):
    assert cases_of(function).is_advisory(case(family)) == is_advisory
    assert not cases_of(function, rules=DROP_IN).is_advisory(case(family))


@pytest.mark.parametrize(
    ("function", "is_excused"), [(torch.tanh, True), (torch.log1p, False), (torch.relu, False)]
)
def test_tiny_values_count_in_full_where_the_reference_keeps_their_digits(function, is_excused):
    outputs = cases_of(function, lambda: torch.rand(8, 8)).pose_if_defined(case("tiny")).answer
    assert (outputs.outputs.least_scale > 0) == is_excused


@pytest.mark.parametrize("is_stable", [False, True])
def test_the_order_of_equal_values_decides_where_the_reference_asks_for_a_stable_order(is_stable):
    def order(x):
        return x.round().sort(dim=-1, stable=is_stable)[1]

    assert (cases_of(order).pose_if_defined(case("scaled")) is not None) == is_stable


def test_more_cases_are_tried_before_a_kernel_is_called_a_decoy():
    doubts = list(cases_of().doubts())
    assert len(doubts) == module.NUM_DOUBTS
    assert {c.seed for c in doubts}.isdisjoint(c.seed for c in cases_of().all())
    assert all(c.manner.is_watched for c in doubts)


def test_a_candidate_may_refuse_what_its_task_does_not_say_under_fixed_alone():
    foreign = {"foreign": ["other"], "other": task_of(torch.relu)}
    cases = cases_of(**foreign)
    assert cases.may_refuse(case(variant="other"))
    assert not cases.may_refuse(case())
    assert not cases_of(rules=DROP_IN, **foreign).may_refuse(case(variant="other"))


def test_a_case_outside_of_the_references_domain_is_none_and_a_plain_one_is_an_error():
    def picky(x):
        if bool((x.abs() > 9).any()):
            raise ValueError("too large")
        return x * 2

    cases = cases_of(picky, lambda: torch.rand(8, 8))
    assert cases.pose_if_defined(case("far")) is None
    assert cases.pose_if_defined(case("negated")) is not None
    always = cases_of(lambda _: 1 / 0)
    with pytest.raises(UsageError):
        always.pose_if_defined(case())


def test_a_case_with_no_finite_answer_is_none():
    assert cases_of(torch.log, lambda: torch.rand(8)).pose_if_defined(case("negated")) is None


@pytest.mark.parametrize(
    ("family", "facts"),
    [
        ("special", (False, False, 0.0)),
        ("extreme", (True, False, 0.0)),
        ("tiny", (True, False, 0.0)),  # relu rounds nothing
        ("scaled", (True, False, 0.0)),
    ],
)
def test_a_family_says_how_its_outputs_are_compared(family, facts):
    outputs = cases_of().pose_if_defined(case(family)).answer.outputs
    assert (outputs.is_nan_free, outputs.is_range_free, outputs.least_scale) == facts


def test_large_values_are_free_of_range_where_the_reference_overflows():
    overflowing = cases_of(lambda x: torch.stack([x.sum(), x.exp().sum()]))
    assert overflowing.pose_if_defined(case("large")).answer.outputs.is_range_free
    assert overflowing.pose_if_defined(case("extreme")).answer.outputs.is_range_free
    assert not cases_of().pose_if_defined(case("large")).answer.outputs.is_range_free


def test_exchanged_inputs_need_two_that_fit():
    two = cases_of(torch.sub, lambda: torch.randn(4), lambda: torch.randn(4))
    first = two.first_inputs()
    posed = two.pose_if_defined(case(SWAPPED))
    assert [torch.equal(a, b) for a, b in zip(posed.inputs, first[::-1], strict=True)] == [True] * 2
    assert cases_of().pose_if_defined(case(SWAPPED)) is None


def test_one_tensor_takes_the_place_of_two_that_fit():
    two = cases_of(torch.sub, lambda: torch.randn(4), lambda: torch.randn(4))
    (posed,) = [two.pose_if_defined(case) for case in two.all() if case.family == SAME]
    assert posed.inputs[0] is posed.inputs[1]
    assert posed.case.manner.is_same
    assert cases_of().pose_if_defined(case(SAME)) is None


def test_no_tensor_takes_the_place_of_two_where_the_reference_writes_to_inputs():
    two = cases_of(torch.Tensor.sub_, lambda: torch.randn(4), lambda: torch.randn(4))
    assert two.pose_if_defined(case(SAME)) is None


def test_one_tensor_takes_no_place_of_two_where_sums_cancel():
    def distance(x, y):
        return (x - y).square().sum(-1)

    two = cases_of(distance, lambda: torch.randn(4, 4), lambda: torch.randn(4, 4))
    assert two.pose_if_defined(case(SAME)) is None


def test_values_in_another_order_are_those_of_the_first_call_and_structures_stay():
    cases = cases_of(torch.mul, lambda: torch.randn(5, 5), lambda: torch.randn(5, 5).tril())
    first, (free, lower) = cases.first_inputs(), cases.pose_if_defined(case(PERMUTED)).inputs
    assert not torch.equal(free, first[0])
    assert torch.equal(free.flatten().sort().values, first[0].flatten().sort().values)
    assert torch.equal(lower, first[1])


@given(seed=st.integers(0, 99), rows=st.integers(0, 5), columns=st.integers(0, 5))
def test_permuting_keeps_values_and_strides(seed, rows, columns):
    x = torch.arange(rows * columns).view(rows, columns).float().T
    y = permuted(x, seed)
    assert y.stride() == x.stride()
    assert torch.equal(y.flatten().sort().values, x.flatten().sort().values)
    assert permuted(3, seed) == 3
    with pytest.MonkeyPatch.context() as patch:  # as values of a gigabyte
        patch.setattr(alike, "LARGE", 8)
        large = permuted(torch.arange(60).view(3, 4, 5), seed)
        turned = torch.arange(60).view(5, 12).T
        assert permuted(turned, seed).stride() == turned.stride()
    assert large.unique().numel() == 60
    assert not torch.equal(large, torch.arange(60).view(3, 4, 5))
    assert sorted(permuted(torch.arange(4), seed).tolist()) == [0, 1, 2, 3]


def test_only_tensors_of_one_shape_type_and_layout_are_exchanged():
    x, y = torch.tensor([[0.5, -1], [2, 3]]), torch.tensor([[1.5, -2], [4, 9]])
    assert swapped([x, 3, y]) == [y, 3, x]
    assert swapped([x, y.T.contiguous().T]) is None
    assert swapped([x, y.double()]) is None
    assert swapped([x, torch.ones(4)]) is None


def test_a_part_of_other_values_keeps_what_inputs_have_in_common():
    one, other = torch.rand(600).sort().values, torch.rand(600).sort().values
    mask = (torch.rand(600) > 0.5).float()
    mixed, same, number = with_parts_of([one, mask, 2], [other, 1 - mask, 2], 1)
    assert bool((mixed[1:] >= mixed[:-1]).all())
    assert not torch.equal(mixed, one)
    assert same is mask
    assert number == 2


def test_indices_out_of_range_are_tried_on_the_cpu_first(monkeypatch):
    table = torch.randn(5, 2)
    rules = replace(RULES, device=torch.device("cuda", 0))
    cases = cases_of(lambda i: table[i], lambda: torch.randint(0, 5, (4,)), rules=rules)
    monkeypatch.setattr(Cases, "_operators_of_base", lambda _: frozenset({"index"}))
    base = cases.base
    assert cases.may_run(base, [torch.tensor([0, 4])], 0)
    assert not cases.may_run(base, [torch.tensor([0, 5])], 0)
    monkeypatch.setattr(module, "MAX_ON_CPU", 1)
    assert not cases.may_run(base, [torch.tensor([0, 4])], 0)
    monkeypatch.setattr(Cases, "_operators_of_base", lambda _: frozenset({"relu"}))
    assert cases.may_run(base, [torch.tensor([0, 5])], 0)


def test_kernels_are_silenced_where_they_matter_and_in_pure_mode_at_other_shapes():
    others = {name: task_of(torch.relu) for name in ("other weights", "redrawn weights 0", "wide")}
    pure = {c.variant for c in cases_of(**others).telling()}
    hybrid = {c.variant for c in cases_of(rules=replace(RULES, mode="hybrid"), **others).telling()}
    assert pure - hybrid == {"wide"}
    assert all(c.manner.is_watched for c in cases_of(**others).telling())


# -- tasks that tell nothing, and time


class Broken(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([math.nan, 1.0]))

    def forward(self, x):
        return (x * self.weight).sum(-1)


SLEEPER = """\
import time

import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0.0), i < n)


def fused_operator(x):
    time.sleep(0.3)
    y = torch.empty_like(x)
    relu_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
    return y
"""


def judged(task, monkeypatch, **constants):
    monkeypatch.setattr("kernelwright.verify.trial.findings", lambda *_, **__: ())
    monkeypatch.setattr(Judge, "_compile", lambda *_: None)
    for name, value in constants.items():
        monkeypatch.setattr(judging, name, value)
    with Judge(JudgeOptions(device="cpu", seed=1, budget_s=0.2)) as judge:
        return judge.verify(task, Candidate(source=SLEEPER))


def test_a_task_whose_weights_are_nan_is_refused():
    task = ModuleTask(name="t", get_inputs=lambda: [torch.randn(3, 2)], build=Broken, text="")
    with pytest.raises(UsageError, match="no finite number"):
        Cases({"base": task}, RULES, 1).first()


def test_the_judge_refuses_a_task_that_tells_nothing(monkeypatch):
    with pytest.raises(UsageError, match="no finite number"):
        judged(task_of(lambda x: x * math.nan), monkeypatch)


def test_a_candidate_that_sleeps_in_each_call_is_out_of_time(monkeypatch):
    verdict = judged(task_of(torch.relu), monkeypatch, SLOWER={"cpu": 0.0})
    assert verdict.code is Code.TIMEOUT, verdict.message
    assert not verdict.accepted


def test_a_slow_reference_of_our_own_asking_is_no_verdict(monkeypatch):
    with pytest.raises(InfraError, match="drawing and answering"):
        judged(task_of(torch.relu), monkeypatch, OWN_S=0.0)


def test_case_seeds_are_told_apart_by_their_numbers():
    assert case_of(1, 2) != case_of(1, 3)
    assert case_of(1, 2) == case_of(1, 2)
