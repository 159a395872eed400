"""What verl is given, in its own forms, without verl: rewards of answers, advantages of tokens."""

import asyncio
import inspect
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from corpus import ROOT
from kernelwright.core.errors import UsageError
from kernelwright.rewards.advantages import centred
from kernelwright.train.objectives import by_token
from kernelwright.train.verl import compute_score, grpo, hrd, register, token_rewards

RELU = (ROOT / "tasks" / "relu.py").read_text()
GOOD = (ROOT / "honest" / "plain.py").read_text()
HOW = {"device": "cpu", "timing": False, "seed": 5, "workers": 1}

MASK = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 0, 0], [1, 1, 1, 1]])
INDEX = ["a", "a", "b", "a"]


def answer(source):
    return f"<plan>\n</plan>\n```python\n{source}```\n"


def at_the_end(scores):
    """As verl lays them out."""
    rewards = torch.zeros(MASK.shape)
    for row, score in enumerate(scores):
        rewards[row, MASK[row].sum() - 1] = score
    return rewards


class Registry:
    """verl's: a decorator by name, that refuses another function under a name it has."""

    def __init__(self):
        self.known = {}

    def __call__(self, name):
        def decorator(function):
            assert self.known.setdefault(name, function) is function
            return function

        return decorator


def test_estimators_are_registered_by_name_and_called_as_verl_calls_them():
    registry = Registry()
    register(registry, alpha=0.1)
    assert set(registry.known) == {"kernelwright_grpo", "kernelwright_hrd"}
    for function in registry.known.values():
        advantages, returns = function(
            token_level_rewards=at_the_end([1, 0, 1, 1]),
            response_mask=MASK,
            config=None,
            index=INDEX,
            reward_baselines=torch.zeros(4),
        )
        assert advantages.shape == MASK.shape
        assert torch.equal(advantages, returns)


def test_a_group_is_compared_with_itself_and_padding_has_no_advantage():
    advantages, _ = grpo(at_the_end([1.0, 0.0, 1.0, 0.5]), MASK, INDEX)
    assert advantages.tolist() == [
        [0.5, 0.5, 0.5, 0.5],
        [-0.5, -0.5, -0.5, 0.0],
        [0.0, 0.0, 0.0, 0.0],  # alone in its group
        [0.0, 0.0, 0.0, 0.0],
    ]


def test_what_has_no_reward_is_no_member_of_its_group():
    advantages, _ = grpo(at_the_end([1.0, math.nan, 1.0, 0.0]), MASK, INDEX, divides=True)
    assert advantages[1].tolist() == [0.0] * 4
    expected = centred([1.0, None, 0.0], divides=True)
    assert advantages[[0, 1, 3], 0].tolist() == pytest.approx(expected)


def test_plan_and_code_learn_from_their_own_rewards():
    plan, code, lengths = [2.0, 0.0, 1.0, 0.0], [1.0, 0.0, 1.0, 0.0], [2, 1, 1, 0]
    rewards = token_rewards(plan, code, lengths, MASK)
    advantages, _ = hrd(rewards, MASK, INDEX, alpha=0.5)
    two_thirds, third = pytest.approx(2 / 3), pytest.approx(-1 / 3)
    assert advantages[0].tolist() == [0.5, 0.5, two_thirds, two_thirds]
    assert advantages[1].tolist() == [-0.5, third, third, 0.0]
    assert advantages[3].tolist() == [third] * 4, "without a plan all of it is code"


@given(
    st.lists(
        st.tuples(
            st.floats(0, 2, width=32),
            st.sampled_from([0.0, 1.0]),
            st.integers(0, 6),
            st.integers(1, 6),
            st.sampled_from("ab"),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_rewards_laid_out_on_tokens_come_back_whole(rows):
    """Beside a computation that is given what `hrd` has to find."""
    plan, code, lengths, ends, index = map(list, zip(*rows, strict=True))
    mask = (torch.arange(6) < torch.tensor(ends)[:, None]).long()
    found, _ = hrd(token_rewards(plan, code, lengths, mask), mask, index, alpha=0.3)
    lengths = [length if length < end else 0 for length, end in zip(lengths, ends, strict=True)]
    parts = [torch.zeros(len(rows)), torch.zeros(len(rows))]
    for group in set(index):
        own = [i for i, each in enumerate(index) if each == group]
        plans = [plan[i] if lengths[i] else None for i in own]
        parts[0][own] = torch.tensor(centred(plans, divides=False))
        parts[1][own] = torch.tensor(centred([code[i] for i in own], divides=False))
    is_plan = torch.arange(6) < torch.tensor(lengths)[:, None]
    expected = by_token(*parts, is_plan, alpha=0.3) * mask
    assert torch.allclose(found, expected, atol=1e-5)


@pytest.mark.slow
def test_answers_are_scored_by_the_judge():
    wrong = GOOD.replace("tl.maximum", "tl.minimum")

    async def scores():
        texts = [answer(GOOD), answer(wrong), "no code", answer(GOOD)]
        asked = (
            compute_score("kernels", text, RELU, {}, reward="hierarchical", **HOW) for text in texts
        )
        return await asyncio.gather(*asked)

    assert inspect.iscoroutinefunction(compute_score), "verl awaits many at once"
    right, refused, unread, again = asyncio.run(scores())
    assert right == again == {
        "score": 1.0, "plan": 1.0, "code": 1.0, "correct": 1.0, "speedup": 1.0,
    }  # fmt: skip
    assert refused == unread == {
        "score": 0.0, "plan": 0.0, "code": 0.0, "correct": 0.0, "speedup": 1.0,
    }  # fmt: skip


@pytest.mark.slow
def test_a_program_that_cannot_be_judged_by_gives_no_reward():
    unusable = RELU.replace("torch.relu(x0)", "torch.relu(y0)")
    with pytest.warns(UserWarning, match="cannot be judged by"):
        found = asyncio.run(compute_score("kernels", answer(GOOD), unusable, **HOW))
    assert all(map(math.isnan, found.values()))


@pytest.mark.parametrize(
    ("given", "said"), [({"reward": "speed"}, "no reward 'speed'"), ({"gpu": True}, "gpu")]
)
def test_settings_that_are_unknown_are_refused(given, said):
    with pytest.raises(UsageError, match=said):
        asyncio.run(compute_score("kernels", answer(GOOD), RELU, **given))
