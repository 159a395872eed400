"""A whole data set of a model's answers, with the judge and the workers that a user has."""

import json

import pytest
from pairs_data import PROGRAMS, program_file, recipe

from kernelwright.core import record
from kernelwright.core.errors import InfraError, UsageError
from kernelwright.data.pairs import build as module
from kernelwright.data.pairs.build import build
from kernelwright.policy.answer import answer_text
from kernelwright.policy.endpoint import Endpoint, Message
from kernelwright.programs.text import parse
from kernelwright.sandbox.workers.executor import Done
from kernelwright.teacher.whole import write_whole

(RELU,) = write_whole(parse(PROGRAMS[0]), limit=1, seed=0)


@pytest.fixture
def made(server, tmp_path):
    """A model that knows one kernel, asked for two programs."""
    model = f"openai:{server.url}#{server.replying(answer_text(RELU))}"
    path = program_file(tmp_path / "programs.jsonl", PROGRAMS[:2])
    part = {"name": "asked", "source": "llm", "file": str(path), "licence": "MIT"}
    return recipe(part | {"options": {"model": model}}, verify={"device": "cpu"}, validation=0.0)


@pytest.mark.slow
def test_right_answers_are_pairs_and_wrong_ones_negatives(made, tmp_path):
    summary = build(made, tmp_path / "set", 1)
    (pair,) = record.read(tmp_path / "set" / "train.jsonl")
    (negative,) = record.read(tmp_path / "set" / "negatives.jsonl")
    assert (pair["program"], pair["verdict"]) == (PROGRAMS[0], "ok")
    assert (negative["program"], negative["verdict"]) == (PROGRAMS[1], "wrong_values")
    assert negative["stage"] == "compare"
    assert negative["message"]
    assert (pair["source"], pair["licence"], pair["origin"]) == ("llm", "MIT", "pack")
    assert (summary["judged"], summary["rejected"]) == (2, {"wrong_values": 1})


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_shipped_model_behind_a_server_writes_a_pair(served_embedded, tmp_path):
    """A model that really answers: what it writes is judged, and becomes a pair."""
    options = {"model": served_embedded, "max_tokens": 700, "temperature": 0.1}
    pair = only_pair(options, tmp_path)
    assert json.loads(pair["provenance"])["refines"] is False


@pytest.mark.slow
def test_a_refinement_of_inductors_code_is_judged_and_becomes_a_pair(server, tmp_path):
    """The answer is fixed: the shipped model knows requests of its training alone."""
    model = f"openai:{server.url}#{server.replying(answer_text(RELU))}"
    pair = only_pair({"model": model, "refine": True}, tmp_path)
    assert json.loads(pair["provenance"])["refines"] is True
    (request,) = server.asked(model.partition("#")[2])
    assert "TorchInductor compiles this program" in request["messages"][-1]["content"]


def only_pair(options, tmp_path):
    """The pair of one program, as a data set that a model of these options answers."""
    path = program_file(tmp_path / "programs.jsonl", PROGRAMS[:1])
    part = {"name": "asked", "source": "llm", "file": str(path), "options": options}
    made = recipe(part, verify={"device": "cpu"}, validation=0.0)
    summary = build(made, tmp_path / "set", 1)
    assert summary["pairs"] == 1, summary
    (pair,) = record.read(tmp_path / "set" / "train.jsonl")
    assert (pair["source"], pair["verdict"]) == ("llm", "ok")
    return pair


@pytest.mark.parametrize("text", [None, "{", "{}"], ids=["gone", "broken", "another"])
def test_files_to_avoid_that_cannot_be_used_are_named(tmp_path, text):
    path, avoided = program_file(tmp_path / "p.jsonl", PROGRAMS[:1]), tmp_path / "avoided.json"
    if text is not None:
        avoided.write_text(text)
    made = recipe({"name": "a", "file": str(path)}, avoid=[str(avoided)])
    with pytest.raises(UsageError) as raised:
        build(made, tmp_path / "set", 1)
    assert raised.value.file == str(avoided)
    assert not (tmp_path / "set").exists()


class InThisProcess:
    """An executor whose worker is quick to make."""

    def __init__(self, factory, num_workers, **_):
        self.worker = factory.make()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.worker.close()

    def run(self, jobs):
        return (Done(name, self.worker.run(job)) for name, job in jobs)


@pytest.fixture
def in_this_process(monkeypatch):
    monkeypatch.setattr(module, "LocalExecutor", InThisProcess)


@pytest.mark.usefixtures("in_this_process")
def test_a_program_s_text_that_is_none_is_the_user_s_to_mend(tmp_path):
    """It is found by whoever comes to write for it; what the others wrote stays."""
    path = program_file(tmp_path / "p.jsonl", PROGRAMS[:2])
    path.write_text(path.read_text().replace("torch.exp(", "torch.expp("))
    parts = [{"name": name, "file": str(path)} for name in ("a", "b")]
    with pytest.raises(UsageError, match=r"its text:\d+: .*expp") as raised:
        build(recipe(*parts), tmp_path / "set", 1)
    assert (raised.value.file, raised.value.line) == (str(path), 3)
    assert raised.value.remedy


@pytest.mark.usefixtures("in_this_process")
def test_a_model_that_refuses_while_shards_are_written_is_the_user_s_to_mend(server, tmp_path):
    path = program_file(tmp_path / "p.jsonl", PROGRAMS[:1])
    options = {"model": f"openai:{server.url}#nobody"}
    part = {"name": "a", "file": str(path), "source": "llm", "options": options}
    with pytest.raises(UsageError, match="404"):
        build(recipe(part), tmp_path / "set", 1)


@pytest.mark.usefixtures("in_this_process")
def test_a_model_that_fails_ends_the_run_and_is_not_asked_again_by_others(server, tmp_path):
    path = program_file(tmp_path / "p.jsonl", PROGRAMS[:1])
    options = {"model": f"openai:{server.url}#half"}
    asked = {"file": str(path), "source": "llm", "options": options}
    parts = [{"name": name} | asked for name in ("a", "b")]
    with pytest.raises(InfraError, match=r"a-00000\.jsonl could not be written"):
        build(recipe(*parts), tmp_path / "set", 1)
    attempts = len(server.asked("half"))
    with pytest.raises(InfraError):
        Endpoint.parse(options["model"]).complete([Message("user", "x")], max_tokens=1)
    assert attempts == len(server.asked("half")) - attempts


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[1]", "must be a JSON object"),
        ('{"record": "program", "text": "", "provenance": {}}', "a program without level"),
        ('{"record": "program", "text": "", "level": 1}', "a program without provenance"),
    ],
)
def test_a_line_that_is_no_program_is_named(tmp_path, line, said):
    path = program_file(tmp_path / "p.jsonl", PROGRAMS[:1])
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(UsageError, match=said) as raised:
        build(recipe({"name": "a", "file": str(path)}), tmp_path / "set", 1)
    assert (raised.value.file, raised.value.line) == (str(path), 3)
    assert not (tmp_path / "set").exists()


def test_a_broken_line_of_programs_is_named(tmp_path):
    path = program_file(tmp_path / "p.jsonl", PROGRAMS[:1])
    path.write_text(path.read_text() + "{\n")
    with pytest.raises(UsageError, match="not JSON") as raised:
        build(recipe({"name": "a", "file": str(path)}), tmp_path / "set", 1)
    assert (raised.value.file, raised.value.line) == (str(path), 3)
