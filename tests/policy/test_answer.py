"""Answers: what the teacher wrote survives the form; what models do to it is read or explained."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from verdicts import verdict

from kernelwright.core.candidate import Candidate, KernelPlan
from kernelwright.core.plan import MAX_LINE, plan_comment, plan_lines, read_plans
from kernelwright.core.verdict import Code
from kernelwright.ops.operator import TensorType
from kernelwright.policy.answer import Malformed, answer_text, read_answer
from kernelwright.policy.prompt import SYSTEM, Request, conversation, request_text, with_feedback
from kernelwright.programs.build import Builder
from kernelwright.programs.text import parse, to_text
from kernelwright.synth.benchmark import benchmark_programs
from kernelwright.teacher.writer import write

CODE = "def fused_operator(x0):\n    return [x0]\n"
PLAN = "<plan>\nPlan of k\n  fuses: relu\n  loop: pointwise\n  tiles: B=8\n</plan>\n"


def relu():
    builder = Builder()
    return builder.program(builder.call("relu", input=builder.input(TensorType((8, 16)))))


def read(text, **options):
    return read_answer(text, origin="model", **options)


LINES = [line for line in benchmark_programs() if line["level"] < 20][::25]


@pytest.mark.parametrize("line", LINES, ids=range(len(LINES)))
def test_whatever_the_teacher_writes_comes_back_from_its_answer(line):
    for candidate in write(parse(line["text"]), limit=3):
        found = read(answer_text(candidate)).candidate
        assert found.plan == candidate.plan
        assert found.source == candidate.source
        assert found.origin == "model"


word = st.text("abcdefgh_", min_size=1, max_size=12)


@given(
    st.builds(
        KernelPlan,
        kernel=word,
        fuses=st.lists(word, min_size=1, max_size=30).map(tuple),
        part=st.lists(word, max_size=30).map(tuple),
        reads=st.lists(word, max_size=30).map(tuple),
        makes=st.lists(word, max_size=3).map(tuple),
        loop=word,
        tiles=st.dictionaries(word, st.integers(1, 4096), max_size=8),
        precision=st.sampled_from(["ieee", "tf32x3"]),
        why=st.lists(word, max_size=40).map(" ".join),
    )
)
def test_plans_are_read_as_they_were_written_and_fit_the_line(plan):
    assert list(read_plans(plan_lines(plan))) == [plan]
    assert max(map(len, plan_comment(plan))) <= MAX_LINE


ANSWERS = {
    "fenced": f"```python\n{CODE}```",
    "another_fence": f"```py\n{CODE}```",
    "no_fence": CODE,
    "prose_around": f"Here it is:\n\n```python\n{CODE}```\nIt copies.",
    "thinking_with_code": f"<think>\n```python\n{CODE}{CODE}```\n</think>\n```\n{CODE}```",
    "the_last_that_defines_it": f"```\nprint(1)\n```\n```python\n{CODE}```\n```\nx = 1\n```",
    "cut_off_after_the_code": f"```python\n{CODE}",
}  # fmt: skip


@pytest.mark.parametrize("text", ANSWERS.values(), ids=ANSWERS)
def test_code_is_found_wherever_it_stands(text):
    answer = read(text)
    assert answer.malformed is None
    assert answer.candidate.source == CODE
    assert answer.candidate.plan == ()
    assert answer.message == "no plan"


WITHOUT = {
    "nothing": (" \n", Malformed.EMPTY),
    "only_thinking": ("<think>hm</think>\n", Malformed.EMPTY),
    "prose": ("I cannot do that.", Malformed.NO_CODE),
    "cut_off": ("```python\ndef fused_operator(x0):\n    return [x", Malformed.CUT_OFF),
    "not_python": ("```python\ndef fused_operator(x0)\n    return x0\n```", Malformed.SYNTAX_ERROR),
    "null_byte": ("```python\ndef fused_operator(x0): return '\0'\n```", Malformed.SYNTAX_ERROR),
    "another_name": ("```python\ndef relu(x0):\n    return x0\n```", Malformed.MISSING_ENTRY),
    "wrong_entry": ("```python\nclass ModelNew: pass\n```", Malformed.MISSING_ENTRY),
}


@pytest.mark.parametrize(("text", "reason"), WITHOUT.values(), ids=WITHOUT)
def test_an_answer_without_a_candidate_says_why(text, reason):
    answer = read(text)
    assert answer.candidate is None
    assert answer.malformed is reason
    assert answer.message


def test_another_entry_may_be_asked_for():
    text = "```python\nclass ModelNew:\n    pass\n```"
    assert read(text, entry="ModelNew").candidate.source == "class ModelNew:\n    pass\n"


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ("Plan of k\n  colour: red", "no field 'colour'"),
        ("Plan of k\n  tiles: BLOCK=wide", "NAME=SIZE"),
        ("I fuse all", "not a line of a plan: I fuse all"),
    ],
)
def test_a_plan_that_is_none_costs_the_plan_alone(plan, message):
    answer = read(f"<plan>\n{plan}\n</plan>\n```python\n{CODE}```")
    assert answer.candidate.plan == ()
    assert message in answer.message


def test_a_plan_stands_above_its_kernel_and_not_twice():
    kernel = "@triton.jit\ndef k(p):\n    pass\n"
    old = "# Plan of k\n#   loop: old\n"
    answer = read(f"{PLAN}```python\n{old}{kernel}\n\n{CODE}```")
    comment = "\n".join(plan_comment(answer.candidate.plan[0]))
    assert answer.candidate.source == f"{comment}\n{kernel}\n\n{CODE}"


RAMBLING = {
    "minus": "x = " + "- " * 20_000 + "1",
    "not": "x = " + "not " * 20_000 + "1",
    "sum": "x = " + "1 + " * 20_000 + "1",
    "brackets": "x = " + "(" * 20_000,
    "attributes": "x = a" + ".b" * 20_000,
}


@pytest.mark.parametrize("tail", RAMBLING.values(), ids=RAMBLING)
def test_code_that_is_nested_without_end_is_a_model_s_mistake(tail):
    answer = read(f"```python\n{CODE}{tail}\n```")
    assert answer.malformed is Malformed.SYNTAX_ERROR
    assert answer.message


def test_a_plan_stands_above_its_kernel_whatever_ends_lines_elsewhere():
    """A form feed ends no line of Python's."""
    kernel = "\n\n@triton.jit\ndef k(p):\n    pass\n"
    head = 'TEXT = "\x0c \u2028"\n'
    answer = read(f"{PLAN}```python\n{head}{kernel}\n\n{CODE}```")
    comment = "\n".join(plan_comment(answer.candidate.plan[0]))
    assert answer.candidate.source == f"{head}\n\n{comment}\n{kernel.strip()}\n\n\n{CODE}"


def test_a_request_names_the_program_and_the_rules():
    text = request_text(Request(program=relu(), precision="tf32", mode="hybrid"))
    assert to_text(relu(), says_types=True).strip() in text
    assert "torch.relu(x0)  # (8, 16) float32" in text
    assert parse(to_text(relu(), says_types=True)) == relu()
    assert text.startswith("Device: sm_90\nPrecision: tf32\nMode: hybrid\n")
    system, user = conversation(Request(program=relu()))
    assert (system.role, system.content) == ("system", SYSTEM)
    assert (user.role, user.content) == ("user", request_text(Request(program=relu())))


def test_the_form_that_others_are_asked_for_is_the_one_that_is_read():
    (example,) = write(relu(), limit=1)
    assert read(answer_text(example)).candidate == Candidate(
        source=example.source, plan=example.plan, origin="model"
    )
    for mark in ("<plan>", "</plan>", "```python", "Plan of ", "  fuses:", "  tiles:"):
        assert mark in SYSTEM
        assert mark in answer_text(example)


def test_what_the_judge_found_is_the_next_turn():
    first = conversation(Request(program=relu()))
    wrong = verdict(Code.WRONG_VALUES, message="off by one", line=3)
    answer = read(ANSWERS["fenced"])
    turns = with_feedback(first, answer, wrong)
    assert [each.role for each in turns] == ["system", "user", "assistant", "user"]
    assert turns[2].content == answer.text
    assert "rejected (wrong_values): line 3: off by one" in turns[3].content
    unread = with_feedback(first, read("no"), None)[3].content
    assert "no candidate (no_code)" in unread


def test_a_plan_comment_that_is_a_part_of_a_statement_stays():
    code = f"{CODE}x = 1 \\\n# Plan of k\ny = 2\n"
    answer = read(f"{PLAN}```python\n{code}```\n")
    assert answer.candidate.source == code
    assert "above the kernels" in answer.message


def test_what_is_wrong_with_a_plan_is_told_in_few_words():
    plan = PLAN.replace("B=8", f"B={'9' * 100_000}\x1b[31m")
    answer = read(f"{plan}```python\n{CODE}```\n")
    assert answer.candidate.plan == ()
    assert len(answer.message) < 1_000
    assert "\x1b" not in answer.message


PIECES = (
    "<plan>", "</plan>", "<think>", "</think>", "```", "```python", "\n", "Plan of k", "  fuses: a",
    "  tiles: B=8", "     more", "# Plan of k", "#   fuses: a", "@triton.jit", "def k(x): pass",
    "def fused_operator(x): return x", "x = 1 \\", '"""', "'", "(", ")", "\x00", "\ud800", "\r",
    "\f", "\u2028", " ", "class ModelNew: pass",
)  # fmt: skip


@given(st.lists(st.sampled_from(PIECES) | st.text(st.characters(codec=None), max_size=3)))
def test_any_text_is_read_as_an_answer(pieces):
    for glue in ("", "\n"):
        answer = read(glue.join(pieces))
        assert (answer.candidate is None) == (answer.malformed is not None)


def test_marks_of_plans_by_the_thousand_take_no_time():
    begin_s = time.process_time()
    for marks in ("<plan></plan>" * 100_000, "<plan>" * 300_000):
        assert read(f"{marks}\n```python\n{CODE}```\n").candidate.source == CODE
    assert time.process_time() - begin_s < 5.0
