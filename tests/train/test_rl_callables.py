"""Rewards in TRL's trainer as it comes, and advantages as verl's estimators are called."""

import pytest
import torch
from rl_runs import FakeJudges, by_word, make_programs, save_policy
from trl import GRPOConfig, GRPOTrainer

from kernelwright.policy.embedded import load_model
from kernelwright.policy.prompt import Request, request_text
from kernelwright.programs.text import to_text
from kernelwright.train.rl.callables import VerdictReward, group_advantages
from kernelwright.verify.standing import Finding


def test_a_reward_is_that_of_the_verdict_and_none_where_we_failed():
    def find(reference, source):
        return Finding(None, "guest lost") if "lost" in source else by_word(reference, source)

    def says(word):
        return f"```python\ndef fused_operator(x):\n    return {word}\n```"

    reward = VerdictReward(FakeJudges(find), "partial_credit")
    told = [{"role": "assistant", "content": says("right")}]
    found = reward([told, says("wrong"), says("lost"), "no code"], program=["p"] * 4, more=None)
    assert found == [1.0, 0.3, None, 0.0]


def test_trl_s_own_trainer_takes_it(tmp_path):
    from datasets import Dataset

    programs = make_programs(sizes=(24,))
    model, tokenizer = load_model(save_policy(tmp_path / "model", programs), "cpu", torch.float32)
    rows = [
        {
            "prompt": [{"role": "user", "content": request_text(Request(program=program))}],
            "program": to_text(program),
        }
        for program in programs
    ]
    config = GRPOConfig(
        output_dir=str(tmp_path / "out"), per_device_train_batch_size=4, num_generations=4,
        max_completion_length=32, max_steps=2, use_cpu=True, bf16=False, report_to="none",
        disable_tqdm=True, save_strategy="no", gradient_checkpointing=False, logging_steps=1,
    )  # fmt: skip
    trainer = GRPOTrainer(
        model=model.train(),
        reward_funcs=VerdictReward(FakeJudges(by_word)),
        args=config,
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
    )
    trainer.train()
    means = [
        line["rewards/rule_and_execution/mean"]
        for line in trainer.state.log_history
        if "rewards/rule_and_execution/mean" in line
    ]
    assert len(means) == 2
    assert max(means) > 0


def test_estimators_compare_within_groups():
    rewards = torch.tensor([[0.0, 1.0], [0.0, 0.0], [0.0, float("nan")], [0.0, 4.0], [2.0, 0.0]])
    mask = torch.tensor([[1, 1], [1, 0], [1, 1], [1, 1], [1, 1]])
    index = ["a", "a", "a", "b", "b"]
    found, returns = group_advantages(rewards, mask, index)
    assert found.tolist() == [[0.5, 0.5], [-0.5, 0.0], [0.0, 0.0], [1.0, 1.0], [-1.0, -1.0]]
    assert returns is found
    others, _ = group_advantages(rewards, mask, index, leaves_one_out=True)
    assert others[:, 0].tolist() == [1.0, -1.0, 0.0, 2.0, -2.0]
    scaled, _ = group_advantages(rewards, mask, index, divides=True)
    assert scaled[0, 0].item() == pytest.approx(0.5 / (0.5**0.5 + 1e-4))
