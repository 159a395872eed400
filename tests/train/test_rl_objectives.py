"""Each objective as the trainer computes it, against one without it: loss and gradients."""

import math

import numpy as np
import pytest
import torch
from rl_runs import make_programs, make_recipe, save_policy, write_programs

from kernelwright.core.verdict import Code
from kernelwright.policy.embedded import load_model
from kernelwright.policy.texts import Text, micro_batches, padded
from kernelwright.rewards.outcome import Outcome
from kernelwright.rewards.rewards import Reward
from kernelwright.train.folder import Standing, Start
from kernelwright.train.objectives import drpo
from kernelwright.train.rl.credit import (
    Credit,
    credits_of,
    flowed_back,
    plan_length,
    plan_mark,
    rewards_of,
)
from kernelwright.train.rl.passes import LearnedRow, blank, passes_of, tensors
from kernelwright.train.rl.recipe import Loss, Objective
from kernelwright.train.rl.trainer import RolloutTrainer

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(), reason="compares float32; what is computed on a GPU is bfloat16"
)
MAX_TOKENS = 32


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("objectives")
    programs = make_programs(sizes=(24,))
    return save_policy(folder / "model", programs, steps=5), write_programs(
        folder / "p.jsonl", programs
    )


def make_trainer(inputs, folder, micro_tokens=1024, **objective):
    recipe = make_recipe(
        *inputs, micro_tokens=micro_tokens, objective=objective, rollouts={"max_tokens": MAX_TOKENS}
    )
    model, tokenizer = load_model(recipe.model.path, "cpu", torch.float32)
    trainer = RolloutTrainer(recipe, folder, model, tokenizer, Start(Standing()), rounds=None)
    trainer.current_gradient_accumulation_steps = 1  # as within `train`
    return trainer


def make_rows(credits, *, old_shift=None, plan_length=0):
    """Rows of different lengths, two groups, one answer longer than a pass has room for."""
    rng = np.random.default_rng(0)
    lengths = [(5, 9), (70, 20), (12, 3), (3, 30), (40, 11), (9, 17)]
    rows = []
    for number, ((prompt, answer), credit) in enumerate(zip(lengths, credits, strict=True)):
        tokens = [rng.integers(20, 200, size=n).tolist() for n in (prompt, answer)]
        old = None
        if old_shift is not None:
            old = rng.normal(-5.0, old_shift, size=answer).astype(np.float32)
        rows.append(
            LearnedRow(
                text=Text(*tokens), credit=credit, plan_length=plan_length, group=number // 3,
                old_logps=old,
            )
        )  # fmt: skip
    return rows


def credits(plan=None, right=(1, 0, 0, 1, 1, 0), weights=(1, 0, 0, 0.25, 0.75, 0)):
    code = (1.5, -0.5, -1.0, 0.25, 0.0, -0.25)
    return [Credit(p, c, bool(r), w) for p, c, r, w in zip(plan or code, code, right, weights)]  # noqa: B905


def logps_of(model, row):
    """Log-probabilities of an answer's tokens, from the model's own logits: no padding, no mask."""
    ids = torch.tensor([[*row.text.prompt, *row.text.answer]])
    logps = model(input_ids=ids).logits[0, :-1].log_softmax(-1)
    return logps.gather(1, ids[0, 1:, None])[len(row.text.prompt) - 1 :, 0]


def gradients(model):
    return {name: each.grad for name, each in model.named_parameters()}


def compare(trainer, rows, by_hand):
    """Loss and gradients of the trainer, and of a function of (model, rows)."""
    loss = trainer.learn(trainer.model, rows)
    model, _ = load_model(trainer.recipe.model.path, "cpu", torch.float32)
    expected = by_hand(model, rows)
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), abs=1e-5)
    found, wanted = gradients(trainer.model), gradients(model)
    assert max(grad.abs().max() for grad in wanted.values()) > 1e-4
    for name, grad in wanted.items():
        torch.testing.assert_close(found[name], grad, rtol=1e-3, atol=1e-6, msg=name)


def grpo(model, rows):
    """Mean over answers of the mean over tokens of A pi / old, clipped; 0.2 to both sides."""
    losses = []
    for row in rows:
        logps = logps_of(model, row)
        old = logps.detach() if row.old_logps is None else torch.tensor(row.old_logps)
        ratio = (logps - old).exp()
        advantage = torch.full_like(logps, row.credit.code)
        gain = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
        losses.append(-gain.mean())
    return torch.stack(losses).mean()


@pytest.mark.parametrize("micro_tokens", [128, 256, 4096])
def test_grpo(inputs, tmp_path, micro_tokens):
    compare(make_trainer(inputs, tmp_path, micro_tokens), make_rows(credits()), grpo)


def test_grpo_behind_the_policy_that_answered_is_clipped(inputs, tmp_path):
    rows = make_rows(credits(), old_shift=0.5)
    ratios = [
        (logps_of(load_model(inputs[0], "cpu")[0], row) - torch.tensor(row.old_logps)).exp()
        for row in rows
    ]
    assert any(((r > 1.2) | (r < 0.8)).any() for r in ratios)
    compare(make_trainer(inputs, tmp_path, 128), rows, grpo)


@pytest.mark.parametrize("loss", ["dr_grpo", "leave_one_out"])
def test_forms_that_divide_by_one_length(inputs, tmp_path, loss):
    def by_hand(model, rows):
        sums = [row.credit.code * _ratios(logps_of(model, row)).sum() for row in rows]
        return -torch.stack(sums).sum() / (len(rows) * MAX_TOKENS)

    compare(make_trainer(inputs, tmp_path, 128, loss=loss), make_rows(credits()), by_hand)


def _ratios(logps):
    return (logps - logps.detach()).exp()


def test_hrd_credits_plan_and_code_apart(inputs, tmp_path):
    def by_hand(model, rows):
        losses = []
        for row in rows:
            advantage = torch.full((len(row.text.answer),), row.credit.code)
            advantage[:3] = 0.1 * row.credit.plan
            losses.append(-(advantage * _ratios(logps_of(model, row))).mean())
        return torch.stack(losses).mean()

    rows = make_rows(credits(plan=(-2.0, 1.0, 4.0, 0.5, 3.0, 0.0)), plan_length=3)
    trainer = make_trainer(inputs, tmp_path, 128, loss="hrd", reward="hierarchical", alpha=0.1)
    compare(trainer, rows, by_hand)


@pytest.mark.parametrize("micro_tokens", [128, 4096])
@pytest.mark.parametrize("old_shift", [None, 0.5])
def test_drpo_does_not_depend_on_how_a_step_is_cut(inputs, tmp_path, micro_tokens, old_shift):
    settings = {"tau": 2.0, "beta": 10.0, "delta": 0.01}

    def by_hand(model, rows):
        each = [logps_of(model, row) for row in rows]
        pad = torch.nn.utils.rnn.pad_sequence
        old = [
            logps.detach() if row.old_logps is None else torch.tensor(row.old_logps)
            for row, logps in zip(rows, each, strict=True)
        ]
        return drpo(
            pad(each, batch_first=True),
            pad(old, batch_first=True),
            pad([torch.ones_like(logps) for logps in each], batch_first=True),
            groups=torch.tensor([row.group for row in rows]),
            is_correct=torch.tensor([row.credit.is_correct for row in rows]),
            weights=torch.tensor([row.credit.weight for row in rows]),
            **settings,
        )

    trainer = make_trainer(
        inputs, tmp_path, micro_tokens, loss="drpo", reward="log_speed", **settings
    )
    compare(trainer, make_rows(credits(), old_shift=old_shift), by_hand)


def test_updates_are_steps_of_their_own(inputs, tmp_path):
    """The second one's loss is that of weights which the first has changed."""
    rows = make_rows(credits(), old_shift=0.01)
    trainer = make_trainer(inputs, tmp_path, updates=2)
    trainer.optimizer = torch.optim.SGD(trainer.model.parameters(), lr=0.1)
    loss = trainer.learn(trainer.model, rows)
    model, _ = load_model(inputs[0], "cpu", torch.float32)
    first = grpo(model, [row for row in rows if row.group == 0])
    first.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), trainer.args.max_grad_norm)
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    model.zero_grad()
    second = grpo(model, [row for row in rows if row.group == 1])
    second.backward()
    assert loss.item() == pytest.approx((first.item() + second.item()) / 2, abs=1e-5)
    for name, grad in gradients(model).items():
        torch.testing.assert_close(gradients(trainer.model)[name], grad, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("loss", ["grpo", "drpo"])
def test_a_term_holds_the_policy_near_the_model_it_began_with(inputs, tmp_path, loss):
    """Its gradient comes on top of the loss, also for answers without advantage."""
    kl = 0.5
    reward = {"grpo": "one_plus_log", "drpo": "log_speed"}[loss]
    trainer = make_trainer(inputs, tmp_path, 128, loss=loss, reward=reward, kl=kl)
    with torch.no_grad():
        for weight in trainer.model.parameters():
            weight.mul_(1.02)
    rows = make_rows(credits())
    trainer.learn(trainer.model, rows)
    model, _ = load_model(inputs[0], "cpu", torch.float32)
    reference, _ = load_model(inputs[0], "cpu", torch.float32)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1.02)

    def drift(row):
        ratio = logps_of(reference, row).detach() - logps_of(model, row)
        return (ratio.exp() - ratio - 1).mean()

    policy = grpo(model, rows) if loss == "grpo" else _drpo_by_hand(model, rows)
    (policy + kl * torch.stack([drift(row) for row in rows]).mean()).backward()
    wanted = gradients(model)
    for name, grad in gradients(trainer.model).items():
        torch.testing.assert_close(grad, wanted[name], rtol=2e-3, atol=1e-5, msg=name)


def _drpo_by_hand(model, rows):
    """Equation 5 for two groups of three, answer by answer; tau 5."""
    total = 0.0
    for group in (0, 1):
        scores = [(row.credit, logps_of(model, row).mean()) for row in rows if row.group == group]
        pull = sum(credit.weight * score for credit, score in scores if credit.is_correct)
        wrong = [score / 5 for credit, score in scores if not credit.is_correct]
        push = 5 * (torch.stack(wrong).exp().mean()).log()
        total = total + push - pull
    return total / 2


# -- from outcomes to credit


def test_a_wrong_first_answer_earns_a_share_of_what_follows_it():
    earned = [Reward(0.0, 0.0), Reward(1.0, 1.0), Reward(2.0, 1.0), Reward(0.0, 0.0), None]
    found = flowed_back(earned, [None, None, 0, 0, 1], 0.5)
    assert found[0] == Reward(plan=0.5, code=0.25)
    assert found[1:] == earned[1:], "a failure of ours gives nothing back"


def outcome(code=Code.OK, speedup=1.0):
    from rl_runs import verdict

    return Outcome.of(verdict(code, speedup=speedup if code is Code.OK else None))


WRONG = outcome(Code.WRONG_VALUES)


def credited(loss, reward, outcomes, groups=None, **more):
    objective = Objective(loss=Loss(loss), reward=reward, **more)
    rewards = rewards_of(outcomes, objective)
    return credits_of(groups or ["g"] * len(outcomes), outcomes, rewards, objective)


def test_advantages_are_those_of_a_group_without_failures_of_ours():
    found = credited("grpo", "rule_and_execution", [outcome(), None, WRONG, WRONG])
    spread = math.sqrt(1 / 3) + 1e-4  # of 1, 0, 0 with Bessel's correction
    assert found[1] is None
    assert [each.code for each in found if each] == pytest.approx(
        [2 / 3 / spread, -1 / 3 / spread, -1 / 3 / spread]
    )


def test_leave_one_out_compares_with_the_others():
    found = credited("leave_one_out", "rule_and_execution", [outcome(), WRONG, WRONG])
    assert [each.code for each in found] == pytest.approx([1.0, -0.5, -0.5])


def test_hrd_has_speed_for_the_plan_and_correctness_for_the_code():
    found = credited("hrd", "hierarchical", [outcome(speedup=3.0), outcome(speedup=0.5), WRONG])
    assert [each.plan for each in found] == pytest.approx([2 - 2.5 / 3, 0.5 - 2.5 / 3, -2.5 / 3])
    assert [each.code for each in found] == pytest.approx([1 / 3, 1 / 3, -2 / 3])


def test_drpo_weighs_right_answers_by_speed_within_their_group():
    outcomes = [outcome(speedup=2.0), outcome(speedup=1.0), WRONG, outcome(speedup=9.0), WRONG]
    found = credited("drpo", "log_speed", outcomes, ["a", "a", "a", "b", "b"], temperature=0.5)
    share = 2**2 / (2**2 + 1)
    assert [each.weight for each in found] == pytest.approx([share, 1 - share, 0, 1, 0])
    assert [each.is_correct for each in found] == [True, True, False, True, False]


def test_a_plan_ends_behind_its_mark_whatever_the_tokens(inputs):
    _, tokenizer = load_model(inputs[0], "cpu")
    text = "<plan>\nfuses: relu\n</plan>\n```python\npass\n```\n"
    tokens = tokenizer(text)["input_ids"]
    length = plan_length(tokens, tokenizer, plan_mark(tokenizer))
    assert tokenizer.decode(tokens[:length]) == "<plan>\nfuses: relu\n</plan>"
    without = tokenizer("no plan")["input_ids"]
    assert plan_length(without, tokenizer, plan_mark(tokenizer)) == 0

    class Letters:
        """A tokenizer without a token for the mark."""

        def get_vocab(self):
            return {}

        def decode(self, tokens):
            return "".join(map(chr, tokens))

    letters = list(map(ord, text))
    assert plan_length(letters, Letters(), plan_mark(Letters())) == text.index("</plan>") + len(
        "</plan>"
    )
    assert plan_length(letters[:9], Letters(), None) == 0


# -- passes


def test_passes_have_every_row_once_and_room_for_it():
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 900, size=200).tolist()
    batches = micro_batches(lengths, 2048)
    assert sorted(number for batch in batches for number in batch) == list(range(200))
    for batch in batches:
        width = padded(max(lengths[number] for number in batch))
        assert len(batch) == 1 or width * len(batch) <= 2048
    filled = sum(lengths) / sum(padded(lengths[b[0]]) * len(b) for b in batches)
    assert filled > 0.85


@pytest.mark.parametrize("processes", [2, 3])
def test_processes_share_rows_and_have_as_many_passes_of_as_many(processes):
    rng = np.random.default_rng(2)
    lengths = rng.integers(1, 900, size=47).tolist()
    shares = [
        passes_of(lengths, 1024, process=number, processes=processes) for number in range(processes)
    ]
    assert len({tuple(map(len, share)) for share in shares}) == 1
    rows = [number for share in shares for batch in share for number in batch]
    assert sorted(number for number in rows if number >= 0) == list(range(47))
    for number in range(len(shares[0])):
        here = [each for share in shares for each in share[number]]
        assert {~each for each in here if each < 0} <= {each for each in here if each >= 0}


@pytest.mark.parametrize("processes", [1, 2, 3, 8])
@pytest.mark.parametrize("lengths", [[40_000] * 3, [40_000] * 9 + [100] * 50, [300] * 700])
def test_no_pass_of_a_process_exceeds_its_tokens(lengths, processes):
    for number in range(processes):
        for rows in passes_of(lengths, 65_536, process=number, processes=processes):
            longest = max(lengths[max(row, ~row)] for row in rows)
            assert len(rows) * padded(longest) <= 65_536


def test_processes_take_rows_that_are_too_long_one_each():
    shares = [passes_of([90_000] * 4, 65_536, process=n, processes=2) for n in range(2)]
    assert shares == [[[0], [2]], [[1], [3]]]
    assert passes_of([90_000] * 2, 65_536) == [[0], [1]]


def test_a_blank_row_counts_for_nothing(inputs, tmp_path):
    rows = make_rows(credits(), old_shift=0.1)
    made = tensors([rows[1], blank(rows[4])], alpha=1.0, pad_id=0, device=torch.device("cpu"))
    assert made["completion_mask"].sum(-1).tolist() == [len(rows[1].text.answer), 0]
    assert made["old_per_token_logps"][1].abs().sum() == 0
    trainer = make_trainer(inputs, tmp_path)
    loss = trainer.compute_loss(trainer.model, made)
    alone = tensors([rows[1]], alpha=1.0, pad_id=0, device=torch.device("cpu"))
    expected = trainer.compute_loss(trainer.model, alone)
    assert loss.item() == pytest.approx(expected.item() / 2, abs=1e-6)
