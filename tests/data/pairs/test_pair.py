import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pairs_data import PROGRAMS, text

from kernelwright.data.pairs.pair import chance, difficulty_of, make_pair, split_of
from kernelwright.policy.answer import read_answer
from kernelwright.policy.prompt import Request
from kernelwright.programs.fingerprint import fingerprint
from kernelwright.programs.text import parse
from kernelwright.teacher.whole import write_whole


def pair_of(source):
    program = parse(source)
    (candidate,) = write_whole(program, limit=1, seed=0)
    columns = {"reasoning": "", "source": "teacher", "origin": "synth", "licence": "MIT"}
    columns |= {"verdict": "ok", "split": "train", "program": source, "provenance": {"seed": 3}}
    request = Request(program=program)
    return candidate, make_pair("a/0/0", request, candidate, fingerprint(program), **columns)


def test_a_line_is_flat_and_its_conversation_is_trl_s():
    candidate, pair = pair_of(PROGRAMS[2])
    line = json.loads(json.dumps(pair.to_json()))
    ((said,), (answered,)) = line["prompt"], line["completion"]
    assert said["role"] == "user"
    assert "torch.softmax" in said["content"]
    assert answered["role"] == "assistant"
    assert read_answer(answered["content"], origin="teacher").candidate == candidate
    assert line["operators"] == ["erf", "softmax"]
    assert line["families"] == ["pointwise", "reduction"]
    assert line["loops"] == [plan.loop for plan in candidate.plan]
    assert json.loads(line["provenance"]) == {"seed": 3}
    for name, value in line.items():
        if name not in ("prompt", "completion"):
            items = value if isinstance(value, list) else [value]
            assert all(isinstance(item, str | int) for item in items), name


@pytest.mark.parametrize(
    ("body", "kernels", "difficulty"),
    [
        (["t0 = torch.relu(x0)"], 1, 1),
        (["t0 = torch.relu(x0)"], 2, 2),
        (["t0 = torch.relu(x0)", "t0 = torch.transpose(t0, 0, 1)"], 1, 1),
        (["t0 = torch.relu(x0)", "t0 = torch.exp(t0)"], 1, 2),
        (["t0 = torch.relu(x0)", "t0 = torch.exp(t0)"], 2, 3),
        (["t0 = torch.sin(x0)", *["t0 = torch.sin(t0)"] * 10], 1, 4),
    ],
)
def test_difficulty_is_of_calls_and_kernels(body, kernels, difficulty):
    named = [line.replace("t0 =", f"t{i} =") for i, line in enumerate(body)]
    lines = [line.replace("(t0", f"(t{i - 1}") for i, line in enumerate(named)]
    program = parse(text(lines, returned=f"t{len(lines) - 1}"))
    assert difficulty_of(program, kernels) == difficulty


@given(st.text(), st.integers(0, 1 << 40))
def test_a_program_has_one_side_whatever_else_is_on_it(canonical, seed):
    side = split_of(canonical, 0.3, seed)
    assert side == split_of(canonical, 0.3, seed)
    assert split_of(canonical, 0.0, seed) == "train"
    assert side == ("validation" if chance(seed, "split", canonical) < 0.3 else "train")


def test_the_validation_side_has_its_share():
    sides = [split_of(str(n), 0.1, 0) for n in range(5_000)]
    assert 400 < sides.count("validation") < 600
