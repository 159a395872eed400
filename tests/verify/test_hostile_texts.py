"""Whatever a candidate's text says, the host gives a verdict soon, in words one can print."""

import gc
import json
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpus import ROOT
from kernelwright.core import record
from kernelwright.core.candidate import Candidate
from kernelwright.core.syntax import MAX_SOURCE, MAX_TOKENS
from kernelwright.core.text import printable
from kernelwright.core.verdict import Checks, Code, Stage
from kernelwright.verify.api import verify
from kernelwright.verify.judge import Judge
from kernelwright.verify.judging import JudgeOptions
from kernelwright.verify.many.jobs import MAX_BATCH, MAX_BATCH_CHARS, Job, in_batches, read_jobs
from kernelwright.verify.rejection import Rejected
from kernelwright.verify.rules import rewiring
from kernelwright.verify.rules import source as rule_source
from kernelwright.verify.rules.scopes import MAX_LENGTH
from kernelwright.verify.static import MAX_FINDINGS, findings
from kernelwright.verify.static import MAX_MESSAGE as MAX_FINDING
from kernelwright.verify.tasks.load import load_task
from kernelwright.verify.trial import MAX_ADVICE, MAX_LAUNCHED, MAX_MESSAGE, MOST_ADVICE, Trial

HEAD = "import torch, triton\n@triton.jit\ndef k(x):\n    pass\ndef fused_operator(x):\n    "
MAIN = "if __name__ == '__main__': pass\n"
SIZE = 1_500
GROWING = {
    "doubled texts": lambda n: (
        "t0 = 'a'\n"
        + "".join(f"t{i + 1} = t{i} + t{i}\n" for i in range(n))
        + f"getattr(torch, t{n})\n"
    ),
    "joined texts": lambda n: f"a = 'x'\nb = f'{'{a}' * n}'\n" + "getattr(torch, b)\n" * n,
    "results of results": lambda n: (
        "a0 = torch\n" + "".join(f"a{i + 1} = a{i}()\n" for i in range(n))
    ),
    "a long module": lambda n: f"import {'.'.join('a' * n)} as q\n" + "q.x\n" * n,
    "one name": lambda n: "x = 1\n" * n + "x.a\n" * n,
    "many functions": lambda n: (
        "def g(): pass\n" * n + "".join(f"def f{i}(): g(); f{i + 1}()\n" for i in range(n))
    ),
    "many kernels": lambda n: "".join(
        f"@triton.jit\ndef k{i}(a): a.to(torch.float16)\n" for i in range(n)
    ),
    "returned values": lambda n: (
        f"def fused_operator(x):\n  y = torch.empty(3)\n  return [{'y,' * n}]\n"
    ),
    "main guards": lambda n: MAIN * n,
    "decorators": lambda n: "@torch.set_grad_enabled(False)\n" * n + "def f(): pass\n",
    "addresses": lambda n: f"{{{'id(x),' * n}}} == 1\n",
    "a long namespace": lambda n: f"x = '{'a::' * 20 * n}'\n" + "torch.library.impl(x)\n" * n,
    "tests in tests": lambda n: (
        f"def fused_operator(x):\n  if {'(' * 90}x.shape{' == (1, 2))' * 90}: pass\n" * (n // 90)
    ),
    "counters in counters": lambda n: (
        f"self.n += 1\n{'x[' * 60}self.n{' == 1]' * 60} == 1\n" * (n // 60)
    ),
    "changes in changes": lambda n: f"{'x[' * 60}0{']' * 60} = 1\n" * (n // 60),
}


def judged(source, **changes):
    with Judge(JudgeOptions(device="cpu")) as judge:
        rules = replace(judge.rules, **changes)
        trial = Trial(rules, Candidate(source=source))
        with trial.ending():
            trial.read(load_task(ROOT / "tasks" / "relu.py"))
        return trial.verdict()


def seconds(text):
    """The CPU time of the rules, without the garbage collector, whose time grows with the tests."""
    gc.collect()
    gc.disable()
    begin_s = time.process_time()
    try:
        findings(text, "pure", "fused_operator")
        return time.process_time() - begin_s
    finally:
        gc.enable()


@pytest.mark.slow
@pytest.mark.parametrize("shape", GROWING)
def test_rules_take_time_in_proportion_to_the_text(shape):
    text = GROWING[shape]
    seconds(text(10))
    few_s = max(seconds(text(SIZE)), 0.05)
    # Quadratic time would be 36 times as much, in each attempt. A busy machine slows some attempts.
    assert any(seconds(text(6 * SIZE)) < 18 * few_s for _ in range(3))


@pytest.mark.parametrize(
    "text",
    [
        "x" + ".a" * 50_000,
        "x = " + "-" * 50_000 + "1",
        "if x: pass\n" + "elif y: pass\n" * 20_000,
        "x = " + "lambda a: " * 1_000 + "a",
        "".join(f"a{n + 1} = a{n}\n" for n in reversed(range(5_000))),
    ],
    ids=["attributes", "signs", "branches", "lambdas", "aliases"],
)
def test_text_that_is_nested_too_deeply_gets_a_verdict(text):
    found = findings(f"{HEAD}a5000.x\n{text}\n", "pure", "fused_operator")
    assert found[0].code in {Code.SYNTAX_ERROR, Code.FORBIDDEN} or found[0].is_hint


@pytest.mark.parametrize("error", [RecursionError, MemoryError])
def test_a_rule_that_runs_out_of_stack_or_memory_gives_a_verdict(error, monkeypatch):
    def fails(*_):
        raise error

    monkeypatch.setattr(rule_source.CandidateSource, "dotted", fails)
    (found,) = findings(f"{HEAD}return x.y\n", "pure", "fused_operator")
    assert found.code is Code.SYNTAX_ERROR


def test_a_source_beyond_the_limit_is_refused_unread():
    (found,) = findings("#" * (MAX_SOURCE + 1), "pure", "fused_operator")
    assert found.code is Code.SYNTAX_ERROR
    assert f"more than {MAX_SOURCE} characters" in found.message
    (found,) = findings("x\n" * (MAX_TOKENS // 2 + 1), "pure", "fused_operator")
    assert found.code is Code.SYNTAX_ERROR
    assert f"more than {MAX_TOKENS} words" in found.message


def test_a_long_name_does_not_multiply_in_findings():
    name = "k" * 200_000
    lines = "    x.handle\n" * 2_000
    found = findings(f"import triton\n@triton.jit\ndef {name}(x):\n{lines}", "pure", "f")
    assert {each.rule for each in found} >= {"host_code_in_kernel"}
    assert sum(len(each.message) for each in found) < 2 * MAX_FINDINGS * MAX_FINDING


@pytest.mark.parametrize(
    ("comment", "is_read"),
    [
        ("# -*- coding: utf-8 -*-", True),
        ("# coding: latin-1", True),
        ("# coding: latin-1 \u00e9", False),
        ("# coding: utf-7", False),
        ("\r# coding: utf-7", False),
        ("\f#vim: set fileencoding=rot13 :", False),
        ("# coding: nonsense", False),
        ("\n\n# coding: utf-7", True),
    ],
)
def test_a_comment_does_not_make_python_read_another_text_than_the_rules(comment, is_read):
    found = findings(f"{comment}\n{HEAD}return x\n", "pure", "fused_operator")
    assert ("syntax" in {finding.rule for finding in found}) != is_read


def test_a_text_in_a_few_pieces_is_still_read():
    text = """a = 'set_default'\nb = a + '_' + f'{"dtype"}'\ngetattr(torch, b)(1)\n"""
    rules = [each.rule for each in findings(f"import torch\n{text}", "pure", "f")]
    assert rewiring.global_switch.id in rules
    long = f"b = 'a' * 2\nc = 'a{'a' * MAX_LENGTH}' + 'b'\ngetattr(torch, c)\n"
    rules = [each.rule for each in findings(f"import torch\n{long}", "pure", "f")]
    assert "computed_name" in rules


@pytest.mark.parametrize("mark", ["\x00", "\ud800"], ids=["nul", "surrogate"])
def test_what_no_file_holds_is_a_syntax_error(mark):
    verdict = judged(f"def fused_operator(x0):\n    return '{mark}'\n")
    assert (verdict.stage, verdict.code) == (Stage.STATIC, Code.SYNTAX_ERROR)


@pytest.mark.parametrize("mark", ["\x00", "\ud800"], ids=["nul", "surrogate"])
def test_a_guest_refuses_such_a_file_where_no_source_is_read(mark):
    source = (ROOT / "honest" / "plain.py").read_text() + f"\nWORD = '{mark}'\n"
    with Judge(JudgeOptions(device="cpu")) as judge:
        judge.rules = replace(judge.rules, checks=Checks.RUNS)
        verdict = judge.verify(load_task(ROOT / "tasks" / "relu.py"), Candidate(source=source))
    assert verdict.code in {Code.LOAD_ERROR, Code.SYNTAX_ERROR}


def test_jobs_hold_any_text_and_contents_differ(tmp_path):
    line = {"id": "a", "reference": "r\n", "candidate": "x = '\ud800'\n"}
    record.append(tmp_path / "jobs.jsonl", [line])
    (job,) = read_jobs(tmp_path / "jobs.jsonl")
    other = Job(id="b", reference="r\n", candidate="x = '\ud801'\n")
    assert job.candidate == line["candidate"]
    assert job.content != other.content


def test_bytes_that_are_not_utf_8_are_a_syntax_error_of_that_file_alone(tmp_path):
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "reference.py").write_bytes((ROOT / "tasks" / "relu.py").read_bytes())
    honest = (ROOT / "honest" / "plain.py").read_bytes()
    file = tmp_path / "task" / "candidate_1.py"
    file.write_bytes(honest + b"# caf\xe9\n")
    (tmp_path / "task" / "candidate_2.py").write_bytes(honest)
    foreign, plain = read_jobs(tmp_path)
    assert plain.candidate.encode() == honest
    assert judged(foreign.candidate).code is Code.SYNTAX_ERROR
    paths = {"id": "a", "reference": "task/reference.py", "candidate": "task/candidate_1.py"}
    record.append(tmp_path / "jobs.jsonl", [paths])
    assert read_jobs(tmp_path / "jobs.jsonl")[0].content == foreign.content
    verdict = verify(load_task(ROOT / "tasks" / "relu.py"), file, device="cpu")
    assert (verdict.code, verdict.stage) == (Code.SYNTAX_ERROR, Stage.STATIC)


@pytest.mark.parametrize(
    "text", ["", " ", "see " + "a/" * 5_000 + "model.py"], ids=["empty", "space", "path"]
)
def test_a_text_that_is_no_program_is_a_job(text, tmp_path):
    record.append(tmp_path / "jobs.jsonl", [{"id": "a", "reference": "r\n", "candidate": text}])
    (job,) = read_jobs(tmp_path / "jobs.jsonl")
    assert job.candidate == text
    assert judged(text).stage is Stage.STATIC


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, MAX_SOURCE + 9), max_size=20), st.integers(1, MAX_BATCH))
def test_rows_of_jobs_fit_a_message(lengths, size):
    jobs = [
        Job(id=str(number), reference="r\n", candidate="x" * length)
        for number, length in enumerate(lengths)
    ]
    rows = list(in_batches(jobs, size))
    assert [job.id for row in rows for job in row] == [job.id for job in jobs]
    for row in rows:
        assert 0 < len(row) <= size
        assert sum(len(job.sent) for job in row) <= MAX_BATCH_CHARS


def test_what_is_sent_of_a_long_text_is_refused_as_the_text_is():
    job = Job(id="a", reference="r\n", candidate="#" * (2 * MAX_SOURCE))
    sent, whole = (findings(text, "pure", "f") for text in (job.sent, job.candidate))
    assert len(job.sent) < len(job.candidate)
    assert sent == whole


def spoken(message, advice=(), launches=()):
    trial = Trial(Judge(JudgeOptions(device="cpu")).rules, Candidate(source=""))
    trial.rejection = Rejected(Stage.RUN, Code.RUNTIME_ERROR, message)
    trial.advice = list(advice)
    trial.launches = dict.fromkeys(launches, 1)
    return trial.verdict()


@settings(max_examples=50, deadline=None)
@given(st.text(st.characters(), max_size=40))
def test_verdicts_can_be_printed_and_written_down(text):
    verdict = spoken(text, [text], [text])
    for said in (verdict.message, *verdict.advice, *verdict.launches):
        said.encode()
        assert said == printable(said, len(said))
    json.dumps(verdict.to_json()).encode()


def test_verdicts_are_bounded():
    verdict = spoken("m" * 10_000, ["a" * 5_000, *(f"advice {n}" for n in range(500))], ["k" * 999])
    assert len(verdict.message) == MAX_MESSAGE
    assert len(verdict.advice) == MOST_ADVICE
    assert max(map(len, verdict.advice)) == MAX_ADVICE
    assert max(map(len, verdict.launches)) < 999
    verdict = spoken("m", launches=[f"kernel_{number}" for number in range(50_000)])
    assert sum(map(len, verdict.launches)) <= MAX_LAUNCHED
    assert "kernel_0" in verdict.launches


def test_what_a_finding_quotes_is_cleaned():
    verdict = judged(f"{HEAD}torch.x['\u202e\x1b[31m'] = 1\n")
    assert verdict.code is Code.FORBIDDEN
    assert verdict.message.isprintable()


WORDS = (
    "torch", "triton.jit", "getattr(", "vars(", "a", "b", " = ", ".", "(", ")", "[", "]", "'mm'",
    "+", ",", "\n", "\n    ", "def ", ":", "lambda ", "if ", "import ", "f'{a}'", "@", "__dict__",
    "\x00", "\ud800", "__import__(", "type(", "operator.attrgetter(", "class ", "return ",
    "global ", "*", "1",
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.text(st.characters()) | st.lists(st.sampled_from(WORDS), max_size=30).map("".join))
def test_any_text_has_findings(text):
    for whole in (text, HEAD + text):
        for finding in findings(whole, "pure", "fused_operator"):
            assert finding.line >= 1
