"""Models behind a URL as a source, asked of a server that runs as a process of its own."""

import pytest
from pairs_data import PROGRAMS

from kernelwright.core.errors import InfraError, UsageError
from kernelwright.core.verdict import Code
from kernelwright.data.pairs import llm
from kernelwright.data.pairs.llm import LlmSource
from kernelwright.policy.answer import Malformed, answer_text
from kernelwright.policy.prompt import Request
from kernelwright.programs.text import parse
from kernelwright.teacher.whole import write_whole

REQUEST = Request(program=parse(PROGRAMS[0]))
(TEACHER_S,) = write_whole(REQUEST.program, limit=1, seed=0)
GOOD = answer_text(TEACHER_S)
NO_KERNEL = "```python\ndef fused_operator(x0):\n    return [x0]\n```\n"


def source(server, model, **options):
    return LlmSource.of({"model": f"openai:{server.url}#{model}", "device": "cpu", **options})


def test_reasoning_is_apart_from_the_answer(server):
    model = server.replying(f"<think>\nOne load, one store.\n</think>\nHere it is:\n{GOOD}")
    (written,) = source(server, model).answers(REQUEST, limit=1, seed=0)
    assert written.reasoning == "One load, one store."
    assert answer_text(written.candidate) == GOOD
    assert written.verdict is None
    assert written.provenance["model"].endswith(f"#{model}")


def test_what_holds_no_candidate_is_refused_with_its_kind(server):
    found = source(server, server.replying("I would rather not.")).answers(REQUEST, limit=3, seed=0)
    assert [written.refused for written in found] == ["llm: no_code"] * 3


def test_what_the_judge_rejects_is_told_and_both_answers_are_given_back(server):
    model = server.learning("no code", NO_KERNEL, GOOD, "never asked for")
    unread, wrong, right = source(server, model, turns=4).answers(REQUEST, limit=1, seed=1)
    assert unread.refused == "llm: no_code"
    assert (wrong.verdict.code, right.verdict.code) == (Code.NO_KERNEL, Code.OK)
    assert [written.provenance["turn"] for written in (unread, wrong, right)] == [0, 1, 2]
    last = server.asked(model)[-1]["messages"]
    assert "holds no candidate (no_code)" in last[3]["content"]
    assert "rejected (no_kernel)" in last[5]["content"]


def test_where_the_program_cannot_be_judged_by_nothing_more_is_asked(server, monkeypatch):
    def unusable(*_):
        raise UsageError("the reference fails")

    monkeypatch.setattr(llm.Judge, "verify", unusable)
    model = server.replying(GOOD)
    (written,) = source(server, model, turns=3).answers(REQUEST, limit=1, seed=0)
    assert written.candidate is not None
    assert written.verdict is None
    assert len(server.asked(model)) == 1


def test_a_model_may_be_given_what_inductor_writes(server):
    model = server.replying(GOOD)
    (written,) = source(server, model, refine=True).answers(REQUEST, limit=1, seed=0)
    assert written.provenance["refines"] is True
    (asked,) = server.asked(model)
    assert "def relu_kernel(x0_ptr" in asked["messages"][-1]["content"]
    assert "TorchInductor" in asked["messages"][-1]["content"]


def test_programs_that_inductor_hands_to_libraries_are_not_refined(server):
    product = PROGRAMS[0].replace("torch.relu(x0)", "torch.mm(x0, x0)").replace("(8, 16)", "(8, 8)")
    found = source(server, server.replying(GOOD), refine=True).answers(
        Request(program=parse(product)), limit=1, seed=0
    )
    assert [written.refused for written in found] == ["inductor: library call"]


def test_options_and_failures_are_told_apart(server):
    with pytest.raises(UsageError, match="no setting"):
        source(server, "m", turn=2)
    with pytest.raises(UsageError, match="at least one"):
        source(server, "m", turns=0)
    with pytest.raises(UsageError, match="not a model endpoint"):
        LlmSource.of({"model": "somewhere"})
    with pytest.raises(InfraError):
        source(server, "half").answers(REQUEST, limit=1, seed=0)


@pytest.mark.slow
def test_answers_that_end_too_early_are_counted(served_embedded):
    options = {"model": served_embedded, "max_tokens": 16, "turns": 2, "device": "cpu"}
    found = LlmSource.of(options).answers(REQUEST, limit=2, seed=0)
    assert len(found) == 4, "two questions, two turns"
    assert all(written.candidate is None for written in found)
    assert {written.refused for written in found} <= {f"llm: {kind}" for kind in Malformed}
