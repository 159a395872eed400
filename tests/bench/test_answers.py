"""What is asked, and what is not asked twice."""

from dataclasses import replace

import pytest
from asked import NO_KERNEL, Saying, asking, problem

from kernelwright.bench import answers
from kernelwright.bench.answers import ask
from kernelwright.core import record
from kernelwright.core.errors import InfraError, UsageError
from kernelwright.policy.answer import read_answer
from kernelwright.policy.policy import Interrupted

PROBLEMS = [problem("torch.relu(x0)", 1), problem("torch.exp(x0)", 2)]


def test_answers_are_kept_with_their_candidate_or_why_there_is_none(tmp_path):
    policy = Saying(NO_KERNEL, "I would rather not.")
    head, found = ask(asking(policy, samples=2), PROBLEMS, tmp_path / "a.jsonl", print)
    assert head["environment"]["versions"]["torch"]
    assert list(found) == ["set/L1/1", "set/L1/2"]
    for code, prose in found.values():
        assert code == {
            "source": "def fused_operator(x0):\n    return [x0]\n",
            "schedule": "",
            "plan": [],
        }
        assert (prose["malformed"], prose["text"]) == ("no_code", "I would rather not.")


def test_what_is_answered_is_not_asked_again(tmp_path):
    first, second = Saying(NO_KERNEL), Saying(NO_KERNEL)
    ask(asking(first), PROBLEMS[:1], tmp_path / "a.jsonl", print)
    _, found = ask(asking(second), PROBLEMS, tmp_path / "a.jsonl", print)
    assert [num for num, *_ in second.asked] == [1]
    assert len(found) == 2


def test_a_policy_that_has_answered_all_gives_its_memory_back(tmp_path, monkeypatch):
    """Not in between: it would take it again."""
    monkeypatch.setattr(answers, "ROWS", 1)
    policy = Saying(NO_KERNEL)
    ask(asking(policy), PROBLEMS, tmp_path / "a.jsonl", print)
    assert (len(policy.asked), policy.num_released) == (2, 1)


def test_a_policy_that_fails_loses_what_it_was_asked_last_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(answers, "ROWS", 1)
    policy = Saying(NO_KERNEL, error=InfraError("no connection"), lasts=1)
    with pytest.raises(InfraError, match="no connection"):
        ask(asking(policy), PROBLEMS, tmp_path / "a.jsonl", print)
    lines = list(record.read(tmp_path / "a.jsonl"))
    assert [line.get("problem") for line in lines] == [None, "set/L1/1"]


def test_what_a_policy_gives_back_as_it_fails_is_kept_where_it_is_whole(tmp_path):
    given = [[read_answer(NO_KERNEL, origin="x")], []]
    policy = Saying(error=Interrupted("no connection", given), lasts=0)
    with pytest.raises(InfraError, match="no connection"):
        ask(asking(policy), PROBLEMS, tmp_path / "a.jsonl", print)
    again = Saying(NO_KERNEL)
    ask(asking(again), PROBLEMS, tmp_path / "a.jsonl", print)
    assert [num for num, *_ in again.asked] == [1]


def test_a_policy_that_cannot_be_used_leaves_nothing(tmp_path):
    def gone():
        raise UsageError("no such policy")

    with pytest.raises(UsageError, match="no such policy"):
        ask(replace(asking(Saying()), policy=gone), PROBLEMS, tmp_path / "a.jsonl", print)
    assert not (tmp_path / "a.jsonl").exists()


def test_several_samples_share_a_call_and_its_size(tmp_path, monkeypatch):
    monkeypatch.setattr(answers, "ROWS", 8)
    policy = Saying(NO_KERNEL)
    many = [problem(number=n) for n in range(1, 6)]
    ask(asking(policy, samples=4, temperature=1.0), many, tmp_path / "a.jsonl", print)
    assert [(num, samples) for num, samples, _ in policy.asked] == [(2, 4), (2, 4), (1, 4)]


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"temperature": 0.5}, 'policy = "saying", not "saying T=0.5"'),
        ({"seed": 1}, "seed = 0, not 1"),
        ({"samples": 3}, "samples = 1, not 3"),
    ],
)
def test_a_run_begun_otherwise_is_refused(tmp_path, other, said):
    ask(asking(Saying(NO_KERNEL)), PROBLEMS, tmp_path / "a.jsonl", print)
    with pytest.raises(UsageError, match=said):
        ask(asking(Saying(NO_KERNEL), **other), PROBLEMS, tmp_path / "a.jsonl", print)


def test_another_program_of_the_same_name_is_refused(tmp_path):
    ask(asking(Saying(NO_KERNEL)), PROBLEMS[:1], tmp_path / "a.jsonl", print)
    with pytest.raises(UsageError, match="set/L1/1 was another program"):
        ask(asking(Saying(NO_KERNEL)), [problem("x0.exp()", 1)], tmp_path / "a.jsonl", print)


def test_a_half_written_line_is_asked_again(tmp_path):
    ask(asking(Saying(NO_KERNEL)), PROBLEMS, tmp_path / "a.jsonl", print)
    whole = (tmp_path / "a.jsonl").read_text()
    (tmp_path / "a.jsonl").write_text(whole[:-20])
    again = Saying(NO_KERNEL)
    ask(asking(again), PROBLEMS, tmp_path / "a.jsonl", print)
    assert [num for num, *_ in again.asked] == [1]
    assert (tmp_path / "a.jsonl").read_text() == whole


def test_a_half_written_head_is_written_anew(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"record": "run", "comm')
    ask(asking(Saying(NO_KERNEL)), PROBLEMS, path, print)
    assert [line["record"] for line in record.read(path)] == ["run", "answers", "answers"]
