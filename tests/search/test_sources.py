"""Candidates of models beside the teacher's: asked together, read, judged, and named in records."""

import time

import pytest
import torch
from flat_program import FLAT

import kernelwright
from kernelwright.core import record
from kernelwright.core.errors import InfraError, UsageError
from kernelwright.policy.answer import answer_text, read_answer
from kernelwright.policy.local import LocalModel
from kernelwright.policy.names import DEFAULT
from kernelwright.policy.policy import ChatPolicy
from kernelwright.programs.text import parse, to_text
from kernelwright.search import sources
from kernelwright.search.optimize import optimize_target
from kernelwright.search.options import SearchOptions
from kernelwright.search.refining import REFINEMENTS
from kernelwright.search.search import Search
from kernelwright.search.sources import Sources, Writers, Writing
from kernelwright.teacher.writer import write
from kernelwright.timing.deadline import Budget
from kernelwright.verify.judge import Judge
from kernelwright.verify.judging import JudgeOptions
from kernelwright.verify.tasks.program_task import program_task

PROGRAM = parse(FLAT)
ANSWER = answer_text(write(PROGRAM, limit=1)[0])
RULES = Judge(JudgeOptions(device="cpu", mode="pure")).rules


def model(server, text):
    return f"openai:{server.url}#{server.replying(text)}"


def written(spec, program=PROGRAM, *, asked=True):
    found = Sources(spec)
    if asked:
        found.ask([program], RULES, limit=2, seed=0)
    (writers, *_) = reversed(found.passes)
    return found.written(program, RULES, Writing(writers, limit=2, seed=3))


def test_the_teacher_alone_writes_as_ever():
    found, unread = written("teacher")
    assert found == write(PROGRAM, limit=2, seed=3, precision="strict")
    assert unread == []


def test_models_have_the_second_pass_and_write_no_candidate_twice(server):
    spec = model(server, ANSWER)
    assert Sources(f"{spec}, teacher").passes == (Writers.TEACHER, Writers.MODELS)
    assert Sources(spec).passes == (Writers.MODELS,)
    (copied,), unread = written(f"teacher,{spec}")
    assert copied.origin == spec
    assert unread == []


def test_the_model_that_ships_with_the_package_is_loaded_when_it_is_asked(monkeypatch):
    loaded = []
    monkeypatch.setattr(sources, "policy", lambda name: loaded.append(name) or Beginner())
    asking = Sources(DEFAULT)
    assert loaded == []
    asking.ask([PROGRAM], RULES, limit=1, seed=0)
    assert loaded == ["embedded"]


@pytest.mark.slow
def test_no_model_is_asked_for_what_the_teacher_solved(server, tmp_path):
    spec = model(server, ANSWER)
    result, _ = optimized(tmp_path, f"teacher,{spec}")
    assert result["origins"] == {"teacher": 1}
    assert server.asked(spec.partition("#")[2]) == []


@pytest.mark.slow
def test_a_model_writes_what_the_teacher_does_not(server, tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "write", lambda *_, **__: [])
    spec = model(server, ANSWER)
    result, lines = optimized(tmp_path, f"teacher,{spec}")
    assert result["origins"] == {spec: 1}
    fragments = [line["calls"] for line in lines if line["record"] == "fragment"]
    assert len(fragments) == len({*map(tuple, fragments)}), "one record a fragment"


@pytest.mark.parametrize(
    ("text", "reason", "message"),
    [
        ("I cannot.", "no_code", "between"),
        ("", "empty", "no answer"),
        (ANSWER.replace("import torch\n", "import torch\nprint(1)\n", 1), "unmergeable", "print"),
    ],
)
def test_an_answer_that_is_no_candidate_says_why(server, text, reason, message):
    spec = model(server, text) if text else f"openai:{server.url}#silent"
    found, unread = written(spec)
    assert found == []
    assert {(each.origin, each.reason) for each in unread} == {(spec, reason)}
    assert message in unread[0].message


def test_models_are_asked_of_many_programs_together_and_of_none_again(server):
    spec = model(server, ANSWER)
    name = spec.partition("#")[2]
    other = parse(FLAT.replace("tanh", "relu"))
    third = parse(FLAT.replace("tanh", "exp"))
    asking = Sources(spec)
    asking.ask([PROGRAM, other], RULES, limit=2, seed=0)
    assert len(server.asked(name)) == 4
    asking.ask([other, third], RULES, limit=2, seed=0)  # of the third when it is first
    assert len(server.asked(name)) == 4
    asking.ask([third, other], RULES, limit=2, seed=0)
    asked = server.asked(name)
    assert len(asked) == 6
    texts = [each["messages"][-1]["content"] for each in asked]
    for program in (PROGRAM, other, third):
        told = to_text(program, says_types=True).strip()
        assert sum(told in text for text in texts) == 2


def test_a_model_s_likeliest_answer_comes_first(server):
    spec = model(server, ANSWER)
    written(spec)
    asked = [each["temperature"] for each in server.asked(spec.partition("#")[2])]
    assert asked == [0.0, sources.TEMPERATURE]
    asking = Sources(spec)
    asking.ask([PROGRAM], RULES, limit=1, seed=0)
    assert server.asked(spec.partition("#")[2])[-1]["temperature"] == 0.0


def test_nothing_is_drawn_when_the_likeliest_answers_took_the_time(monkeypatch):
    asked = []

    class Slow:
        name = "slow"

        def write(self, requests, *, samples, sampling):
            asked.append((samples, sampling.temperature, sampling.for_s))
            time.sleep(0.2)
            return [[] for _ in requests]

        def release(self): ...

    monkeypatch.setattr(sources, "policy", lambda _: Slow())
    Sources("hf:slow").ask([PROGRAM], RULES, limit=4, seed=0, for_s=0.1)
    assert asked == [(1, 0.0, 0.1)]
    Sources("hf:slow").ask([PROGRAM], RULES, limit=4, seed=0, for_s=60.0)
    (samples, temperature, for_s) = asked[-1]
    assert (samples, temperature) == (3, sources.TEMPERATURE)
    assert 0 < for_s < sources.DRAWING_SHARE * 60.0


def test_models_give_their_memory_back_before_what_they_wrote_is_judged(monkeypatch):
    told = []

    class Telling:
        name = "telling"

        def write(self, requests, **_):
            told.append("write")
            return [[] for _ in requests]

        def release(self):
            told.append("release")

    monkeypatch.setattr(sources, "policy", lambda _: Telling())
    written("hf:telling")
    assert told == ["write", "write", "release"]


@pytest.mark.parametrize("spec", ["", " , ", "teacher,gpt"])
def test_names_of_no_policies_are_refused(spec):
    with pytest.raises(UsageError, match="polic"):
        Sources(spec)


def test_what_models_write_needs_a_judge_that_does_not_trust_it(server):
    served = Sources(model(server, ANSWER))
    say = {"budget": Budget.start(1.0)}
    with pytest.raises(ValueError, match="trusts"):
        Search(Judge(JudgeOptions(device="cpu")), served, **say)
    Search(Judge(JudgeOptions(device="cpu"), trusted=False), served, **say)


def optimized(tmp_path, spec):
    (tmp_path / "target.py").write_text(FLAT)
    out = tmp_path / "out"
    options = SearchOptions(device="cpu", budget_s=600, policy=spec)
    result = optimize_target(str(tmp_path / "target.py"), options, out=out)
    return result, list(record.read(out / "records.jsonl"))


def test_models_write_for_what_saves_nothing_where_a_slower_kernel_is_wanted(server, tmp_path):
    lone = FLAT.replace("    t1 = torch.tanh(t0)\n    t2 = torch.softmax(t1, dim=1)\n", "")
    target = tmp_path / "target.py"
    target.write_text(lone.replace("return [t2]", "return [t0]"))
    spec = model(server, ANSWER)
    options = SearchOptions(device="cpu", budget_s=600, policy=spec, with_slower=True)
    optimize_target(str(target), options, out=tmp_path / "out")
    assert server.asked(spec.partition("#")[2])


@pytest.mark.slow
def test_a_right_kernel_of_a_model_is_kept_and_the_records_say_whose_it_is(server, tmp_path):
    spec = model(server, "Sure!\n" + ANSWER)
    result, lines = optimized(tmp_path, spec)
    assert result["verdict"]["accepted"]
    assert result["origins"] == {spec: 1}
    assert lines[0]["options"]["policy"] == spec
    tried = [line for line in lines if line["record"] == "candidate"]
    assert {line["origin"] for line in tried} == {spec}
    assert [line["origin"] for line in lines if line["record"] == "fragment"] == [spec]


@pytest.mark.slow
def test_a_module_is_optimized_with_a_model_s_kernel(server):
    class Model(torch.nn.Module):
        def forward(self, x0, x1):
            return torch.softmax(torch.tanh(torch.mul(x0, x1)), dim=1)

    spec = model(server, ANSWER)
    inputs = torch.randn(9, 33), torch.randn(33)
    made = kernelwright.optimize(Model(), inputs, budget_s=600, policy=spec)
    assert made.optimization["origins"] == {spec: 1}


@pytest.mark.slow
def test_a_wrong_kernel_of_a_model_is_not_kept(server, tmp_path):
    wrong = ANSWER.replace("tl.exp(", "2.0 + tl.exp(")
    assert wrong != ANSWER
    result, lines = optimized(tmp_path, model(server, wrong))
    assert result["num_triton"] == 0
    tried = [line for line in lines if line["record"] == "candidate"]
    assert tried[0]["verdict"]["code"] == "wrong_values"
    assert not any(line["verdict"]["accepted"] for line in tried), "nor for parts of it"


class Beginner:
    """Writes as the teacher does, but for programs of three calls and more something wrong."""

    name = "beginner"

    def write(self, requests, **_):
        return [[self._answer(request.program)] for request in requests]

    def _answer(self, program):
        source = answer_text(write(program, limit=1)[0])
        wrong = source.replace(", mask=", " + 1, mask=") if len(program.calls) > 2 else source
        return read_answer(wrong, origin=self.name)

    def release(self): ...


@pytest.mark.slow
def test_what_a_model_cannot_write_whole_it_is_asked_for_in_parts(monkeypatch, tmp_path):
    monkeypatch.setattr(sources, "policy", lambda _: Beginner())
    result, lines = optimized(tmp_path, "hf:beginner")
    fragments = [line for line in lines if line["record"] == "fragment"]
    assert fragments[0]["calls"] == [0, 1, 2]
    assert fragments[0]["winner"] is None
    assert any(line["winner"] for line in fragments if len(line["calls"]) == 2)
    assert result["outcome"]["status"] == "optimized"


WRONG = ANSWER.replace("tl.exp(", "2.0 + tl.exp(")


def told(server, name):
    """The last messages of the conversations of a model that have an answer in them."""
    return [
        request["messages"][-1]["content"]
        for request in server.asked(name)
        if any(message["role"] == "assistant" for message in request["messages"])
    ]


@pytest.mark.slow
def test_a_model_is_told_why_its_answer_is_wrong_and_answers_again(server, tmp_path):
    assert WRONG != ANSWER
    name = server.learning(WRONG, ANSWER)
    result, _ = optimized(tmp_path, f"openai:{server.url}#{name}")
    assert result["verdict"]["accepted"]
    assert sum(result["origins"].values()) == 1
    feedback = told(server, name)
    assert feedback
    assert all("rejected (wrong_values)" in text for text in feedback)


@pytest.mark.slow
def test_a_model_is_told_that_its_text_holds_no_candidate(server, tmp_path):
    name = server.learning("I cannot do that.", ANSWER)
    result, _ = optimized(tmp_path, f"openai:{server.url}#{name}")
    assert result["verdict"]["accepted"]
    assert any("holds no candidate" in text for text in told(server, name))


@pytest.mark.slow
def test_a_model_that_stays_wrong_is_told_twice_in_one_conversation(server, tmp_path):
    name = server.replying(WRONG)
    optimized(tmp_path, f"openai:{server.url}#{name}")
    roles = [[message["role"] for message in each["messages"]] for each in server.asked(name)]
    longest = max(roles, key=len)
    assert longest == ["system", "user", *["assistant", "user"] * REFINEMENTS]


@pytest.mark.slow
def test_a_model_that_was_right_is_not_asked_again(server, tmp_path):
    name = server.replying(ANSWER)
    optimized(tmp_path, f"openai:{server.url}#{name}")
    assert told(server, name) == []


@pytest.mark.slow
def test_a_model_is_told_of_its_last_answer_where_the_conversation_goes_on(server, tmp_path):
    name = server.learning(WRONG, "I cannot do that.", ANSWER)
    result, _ = optimized(tmp_path, f"openai:{server.url}#{name}")
    assert result["verdict"]["accepted"]
    longest = max((each["messages"] for each in server.asked(name)), key=len)
    assert [message["content"] for message in longest[2::2]] == [WRONG, "I cannot do that."]
    assert "wrong_values" in longest[3]["content"]
    assert "holds no candidate" in longest[5]["content"]


def test_a_model_that_takes_no_feedback_gets_none(monkeypatch):
    class Single(Beginner):
        takes_feedback = False

        def write(self, requests, **_):
            return [[read_answer("no", origin=self.name)] for _ in requests]

        def chat(self, conversations, **_):
            raise AssertionError("it was told")

    asking = Sources("teacher,openai:http://localhost:1/v1#none")
    monkeypatch.setattr(asking, "_models", [Single()])
    asking.ask([PROGRAM], RULES, limit=1, seed=0)
    assert asking.refine(PROGRAM, RULES, {}, seed=0) == 0


def test_the_embedded_model_takes_no_feedback():
    assert isinstance(LocalModel.embedded(), ChatPolicy)
    assert not LocalModel.embedded().takes_feedback


def test_a_model_that_fails_when_it_is_told_is_asked_no_more(monkeypatch):
    class Failing(Beginner):
        takes_feedback = True

        def chat(self, conversations, **_):
            raise InfraError("it went away")

    asking = Sources("teacher,openai:http://localhost:1/v1#none")
    monkeypatch.setattr(asking, "_models", [Failing()])
    asking.ask([PROGRAM], RULES, limit=1, seed=0)
    (candidate,), _ = asking.written(PROGRAM, RULES, Writing(Writers.MODELS, limit=1, seed=0))
    with Judge(JudgeOptions(device="cpu", mode="pure", seed=4, budget_s=0.0)) as judge:
        verdict = judge.verify(program_task(PROGRAM), candidate)
    assert asking.refine(PROGRAM, RULES, {candidate.source: verdict}, seed=0) == 0
    assert "it went away" in str(asking.failed[0])


def test_answers_that_are_none_are_in_the_records(server, tmp_path):
    spec = model(server, "I cannot.")
    result, lines = optimized(tmp_path, spec)
    assert result["outcome"]["cause"] == "all_wrong"
    assert result["outcome"]["candidates"]["reasons"].keys() == {"no_code"}
    (unread,) = {line["reason"] for line in lines if line["record"] == "unread"}
    assert unread == "no_code"


@pytest.mark.slow
def test_a_model_that_fails_beside_others_is_told_and_not_asked_again(server, tmp_path):
    """What the others write is searched as if it were not there."""
    broken = f"openai:{server.url}#half"
    spec = f"{broken},{model(server, ANSWER)}"
    result, lines = optimized(tmp_path, spec)
    assert result["num_triton"] == 1
    assert broken not in result["origins"]
    (failed,) = lines[-1]["failed_sources"]
    assert failed["origin"] == broken
    assert server.url in failed["message"]
    asking = Sources(spec)
    asking.ask([PROGRAM], RULES, limit=2, seed=0)
    num_asked = len(server.asked("half"))
    asking.ask([parse(FLAT.replace("tanh", "relu"))], RULES, limit=2, seed=0)
    assert len(server.asked("half")) == num_asked
    assert [each.origin for each in asking.failed] == [broken]


def test_a_model_that_fails_in_the_second_pass_is_warned_of(server, monkeypatch):
    class Model(torch.nn.Module):
        def forward(self, x0, x1):
            return torch.softmax(torch.tanh(torch.mul(x0, x1)), dim=1)

    monkeypatch.setattr(sources, "write", lambda *_, **__: [])
    spec = f"openai:{server.url}#half"
    inputs = torch.randn(9, 33), torch.randn(33)
    with pytest.warns(UserWarning, match="#half failed and is asked no more"):
        made = kernelwright.optimize(Model(), inputs, budget_s=600, policy=f"teacher,{spec}")
    assert made.optimization["outcome"]["status"] == "unchanged"


def test_what_a_model_wrote_before_it_failed_is_searched(server, tmp_path):
    """It answers three times, and is the only one that writes."""
    spec = f"openai:{server.url}#tires"
    result, lines = optimized(tmp_path, spec)
    assert [each["origin"] for each in result["failed_sources"]] == [spec]
    assert {line["reason"] for line in lines if line["record"] == "unread"} == {"no_code"}


@pytest.mark.slow
def test_where_all_that_were_to_write_fail_there_is_no_search(server, tmp_path):
    with pytest.raises(InfraError, match=r"#half failed .*#down failed"):
        optimized(tmp_path, f"openai:{server.url}#half,openai:{server.url}#down")
    assert not (tmp_path / "out").exists()


def test_a_request_that_is_refused_ends_the_search(server, tmp_path):
    """The key or the name is the user's to mend."""
    with pytest.raises(UsageError, match="404"):
        optimized(tmp_path, f"openai:{server.url}#nobody")
    assert not (tmp_path / "out").exists()
