"""`kernelwright generate`: what is printed of good and bad answers, and of a policy that fails."""

import json

import pytest

from kernelwright.policy.answer import read_answer
from kernelwright.policy.policy import Sampling
from kernelwright.policy.prompt import request_text
from kernelwright.search import generate as search_generate

PROGRAM = """\
import torch


def get_inputs():
    x0 = torch.randn((64, 33))
    return [x0]


def fused_operator(x0):
    t0 = torch.relu(x0)
    t1 = torch.exp(t0)
    return [t1]
"""


@pytest.fixture
def generate(run, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    return lambda *argv: run("generate", tmp_path / "program.py", *argv)


def test_the_teacher_s_candidates_are_printed_with_their_plans(generate):
    done = generate("--policy", "teacher", "-n", 2)
    assert done.code == 0
    for number in (1, 2):
        assert f"# candidate {number}: teacher\n" in done.out
    assert done.out.count("# Plan of") >= 2
    assert done.out.count("def fused_operator(") == 2


def test_json_has_text_and_candidate(generate):
    options = "--policy", "teacher", "-n", 2, "--json", "--seed", 3
    done = generate(*options)
    found = json.loads(done.out)
    assert done.code == 0
    assert (found["policy"], found["sampling"]["seed"]) == ("teacher", 3)
    assert found["sampling"]["temperature"] == 1.0
    for answer in found["answers"]:
        again = read_answer(answer["text"], origin="teacher").candidate
        assert json.loads(json.dumps(again.to_json()["plan"])) == answer["candidate"]["plan"]
    assert generate(*options).out == done.out


@pytest.mark.slow
def test_teacher_and_embedded_model_write_where_no_policy_is_named(generate):
    done = generate("--json")
    printed = json.loads(done.out)
    assert (done.code, printed["policy"]) == (0, "teacher,embedded")
    candidates = [answer["candidate"] for answer in printed["answers"]]
    assert [candidate["origin"] for candidate in candidates] == ["teacher", "embedded"]
    assert all("def fused_operator(" in candidate["source"] for candidate in candidates)


def test_an_answer_without_a_candidate_says_why(generate, server):
    spec = f"openai:{server.url}#{server.replying('I would rather not.')}"
    done = generate("--policy", spec)
    assert done.code == 0
    assert "# candidate 1: malformed (no_code)" in done.out
    assert "I would rather not." in done.out


def test_what_was_written_before_a_failure_is_printed(generate, server):
    done = generate("--policy", f"openai:{server.url}#tires-generate", "-n", 20)
    assert done.code == 3
    assert 1 <= done.out.count("an answer") <= 3
    assert "our side failed" in done.err


def test_a_share_that_holds_no_token_is_refused(generate):
    assert generate("--top-p", 0).code == 2


def test_a_module_is_asked_about_in_the_order_in_which_it_reads(tmp_path):
    """Modules list parameters first, programs that models learnt from do not: a model that was
    asked so dropped the bias of a linear layer."""
    path = tmp_path / "module.py"
    path.write_text(
        "import torch\n\n\n"
        "class Model(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.unused = torch.nn.Parameter(torch.ones(3))\n"
        "        self.linear = torch.nn.Linear(32, 16)\n\n"
        "    def forward(self, x):\n"
        "        return torch.relu(self.linear(x))\n\n\n"
        "def get_inputs():\n"
        "    return [torch.randn(8, 32)]\n\n\n"
        "def get_init_inputs():\n"
        "    return []\n"
    )
    asked = []

    class Writer:
        def write(self, requests, *, samples, sampling):
            asked.extend(requests)
            return [[]]

    sampling = Sampling(temperature=0.0)
    search_generate.generate(
        str(path), Writer(), samples=1, sampling=sampling, precision="strict", mode="pure"
    )
    (program,) = [request.program for request in asked]
    shapes = [value.type.shape for value in program.inputs]
    assert shapes[:3] == [(8, 32), (16, 32), (16,)], "input, weight, bias"
    assert [value.name for value in program.inputs] == [f"x{n}" for n in range(len(shapes))]
    assert "F.linear(x0, x1, x2)" in request_text(asked[0])
