"""Objectives against examples worked out by hand."""

import math

import pytest
import torch

from kernelwright.train.objectives import (
    by_token,
    drpo,
    hinge,
    log_mean_exp,
    mean_logps,
    reference_kl,
)

MASK = torch.tensor([[1.0, 1, 1], [1, 1, 0], [1, 0, 0], [1, 1, 1]])
LOGPS = torch.tensor([[-1.0, -2, -3], [-1, -1, -9], [-4, -9, -9], [-3, -3, -3]])
"""Scores -2, -1, -4, -3."""
SETTINGS = {"tau": 5.0, "beta": 100.0, "delta": 0.001}


def loss(logps, **changes):
    values = {
        "old_logps": LOGPS,
        "mask": MASK,
        "groups": torch.zeros(4, dtype=torch.long),
        "is_correct": torch.tensor([True, True, False, False]),
        "weights": torch.tensor([0.25, 0.75, 0.0, 0.0]),
        **SETTINGS,
    }
    return drpo(logps, **values | changes)


def test_scores_are_means_over_an_answers_own_tokens():
    assert mean_logps(LOGPS, MASK).tolist() == [-2.0, -1.0, -4.0, -3.0]


def test_drpo_by_hand():
    pull = 0.25 * -2 + 0.75 * -1
    push = 5 * math.log((math.exp(-4 / 5) + math.exp(-3 / 5)) / 2)
    assert loss(LOGPS).item() == pytest.approx(push - pull, rel=1e-6)


def test_drpos_gradient_by_hand():
    """Of a score: -w for a correct answer, its share of the sum of exponentials for a wrong one; of
    a token: that over the answer's length."""
    logps = LOGPS.clone().requires_grad_()
    loss(logps).backward()
    shares = torch.softmax(torch.tensor([-4.0, -3.0]) / 5, 0)
    of_scores = torch.tensor([-0.25, -0.75, *shares.tolist()])
    expected = of_scores[:, None] * MASK / MASK.sum(-1, keepdim=True)
    torch.testing.assert_close(logps.grad, expected)


@pytest.mark.parametrize("correct", [[True] * 4, [False] * 4])
def test_a_group_of_one_kind_gives_no_gradient(correct):
    logps = LOGPS.clone().requires_grad_()
    loss(logps, is_correct=torch.tensor(correct), weights=torch.full((4,), 0.25)).backward()
    assert logps.grad.abs().max() == 0


def test_a_group_that_is_all_right_may_teach_what_is_fast():
    logps = LOGPS.clone().requires_grad_()
    weights = torch.tensor([0.7, 0.1, 0.1, 0.1])
    right = torch.ones(4, dtype=torch.bool)
    loss(logps, is_correct=right, weights=weights, contrasts_right=True).backward()
    of_scores = torch.tensor([-0.45, 0.15, 0.15, 0.15])
    expected = of_scores[:, None] * MASK / MASK.sum(-1, keepdim=True)
    torch.testing.assert_close(logps.grad, expected)


def test_what_is_equally_fast_teaches_nothing():
    logps = LOGPS.clone().requires_grad_()
    right = torch.ones(4, dtype=torch.bool)
    equal = torch.full((4,), 0.25)
    loss(logps, is_correct=right, weights=equal, contrasts_right=True).backward()
    assert logps.grad.abs().max() < 1e-6


def test_groups_are_apart_and_count_the_same():
    both = torch.tensor([0, 1, 0, 1])
    weights, is_correct = torch.tensor([1.0, 1, 0, 0]), torch.tensor([True, True, False, False])
    found = loss(LOGPS, groups=both, weights=weights, is_correct=is_correct)
    assert found.item() == pytest.approx(((-4 + 2) + (-3 + 1)) / 2)


def test_a_group_that_teaches_nothing_counts_in_the_mean():
    """Equation 5 divides by all n queries, not by those that have both kinds of answers."""
    alone = loss(LOGPS).item()
    logps, mask = (torch.cat([values, values[:2]]) for values in (LOGPS, MASK))
    found = loss(
        logps,
        old_logps=logps,
        mask=mask,
        groups=torch.tensor([0, 0, 0, 0, 1, 1]),
        is_correct=torch.tensor([True, True, False, False, False, False]),
        weights=torch.tensor([0.25, 0.75, 0.0, 0.0, 0.0, 0.0]),
    )
    assert found.item() == pytest.approx(alone / 2)


def test_the_divergence_from_a_reference_by_hand():
    """exp(r) - r - 1 with r = log reference - log new: 0.1 at one token, -0.2 at two, else 0."""
    reference = LOGPS.clone()
    reference[0, 0] += 0.1
    reference[1, 0] -= 0.2
    reference[1, 1] -= 0.2
    first = (math.exp(0.1) - 0.1 - 1) / 3
    second = math.exp(-0.2) + 0.2 - 1
    found = reference_kl(LOGPS, reference, MASK)
    assert found.item() == pytest.approx((first + second) / 4, rel=1e-4)
    assert reference_kl(LOGPS, LOGPS, MASK).item() == 0.0


def test_the_hinge_by_hand():
    new = LOGPS - 0.5  # log old - log new is a half at every token
    found = hinge(new, LOGPS, MASK, beta=100.0, delta=0.1)
    assert found.item() == pytest.approx(100 * 0.4**2, rel=1e-5)
    assert hinge(LOGPS + 0.5, LOGPS, MASK, beta=100.0, delta=0.1).item() == 0.0


def test_the_hinge_pulls_back_where_it_is_crossed():
    logps = (LOGPS - 0.5).requires_grad_()
    hinge(logps, LOGPS, MASK, beta=1.0, delta=0.1).backward()
    torch.testing.assert_close(logps.grad, -2 * 0.4 / 9 * MASK)


def test_a_stable_log_of_a_mean():
    assert log_mean_exp(torch.tensor([-1e4, -1e4])).item() == pytest.approx(-1e4)
    assert log_mean_exp(torch.tensor([0.0, math.log(3)])).item() == pytest.approx(math.log(2))


def test_plan_and_code_have_advantages_of_their_own():
    is_plan = torch.tensor([[1, 1, 0], [1, 0, 0]])
    found = by_token(torch.tensor([2.0, -1]), torch.tensor([0.5, 1]), is_plan, alpha=0.1)
    torch.testing.assert_close(found, torch.tensor([[0.2, 0.2, 0.5], [-0.1, 1, 1]]))
