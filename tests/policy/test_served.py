"""A served model as a policy: many requests at once, faults told apart, answers kept."""

import pytest

from kernelwright.core.errors import InfraError, UsageError
from kernelwright.ops.operator import TensorType
from kernelwright.policy.answer import Malformed
from kernelwright.policy.endpoint import Endpoint, Message
from kernelwright.policy.policy import Interrupted, Sampling
from kernelwright.policy.prompt import Request, conversation
from kernelwright.policy.served import ServedModel
from kernelwright.programs.build import Builder

CODE = "```python\ndef fused_operator(x0):\n    return [x0]\n```"
WARM = Sampling(temperature=0.8, top_p=0.9, max_tokens=77, seed=5)


def request(size=64):
    builder = Builder()
    return Request(
        program=builder.program(builder.call("relu", input=builder.input(TensorType((size,)))))
    )


def served(server, model, *, concurrency=4, **options):
    options = {"max_retries": 0, "timeout_s": 10, **options}
    endpoint = Endpoint.parse(f"openai:{server.url}#{model}", **options)
    return ServedModel(endpoint, concurrency=concurrency)


def test_each_answer_is_a_request_with_a_seed_of_its_own(server):
    model = server.replying(CODE)
    policy = served(server, model)
    requests = [request(64), request(128)]
    answers = policy.write(requests, samples=3, sampling=WARM)
    assert [len(each) for each in answers] == [3, 3]
    assert policy.name == f"openai:{server.url}#{model}"
    assert {answer.candidate.origin for each in answers for answer in each} == {policy.name}
    asked = server.asked(model)
    assert len(asked) == len({each["seed"] for each in asked}) == 6
    assert {(a["temperature"], a["top_p"], a["max_tokens"]) for a in asked} == {(0.8, 0.9, 77)}
    expected = [[m.content for m in conversation(each)] for each in requests]
    assert all([m["content"] for m in each["messages"]] in expected for each in asked)
    policy.write(requests, samples=3, sampling=WARM)
    again = server.asked(model)[6:]
    assert sorted(each["seed"] for each in again) == sorted(each["seed"] for each in asked)


def test_greedy_asks_once(server):
    model = server.replying(CODE + "\n")
    assert len(served(server, model).write([request()], samples=4, sampling=Sampling())[0]) == 1
    (asked,) = server.asked(model)
    assert "seed" not in asked
    assert "top_p" not in asked


def test_no_request_begins_when_the_time_is_over(server):
    model = server.replying(CODE + "\n# late\n")
    assert served(server, model).write([request()], samples=3, sampling=Sampling(for_s=0.0)) == [[]]
    assert server.asked(model) == []


def test_an_empty_answer_is_the_model_s(server):
    ((answer,),) = served(server, "silent").write([request()], samples=1, sampling=Sampling())
    assert answer.malformed is Malformed.EMPTY


def test_requests_go_out_together(server):
    """The server answers none of the four before all of them have come."""
    policy = served(server, "together", concurrency=4)
    messages = [[Message("user", f"{i}")] for i in range(4)]
    answers = policy.chat(messages, samples=1, sampling=Sampling())
    assert [text for (text,) in answers] == ["all are here"] * 4


@pytest.mark.parametrize("model", ["down", "slow", "half", "cut", "nonsense", "empty"])
def test_a_server_s_failure_is_no_answer(server, model):
    options = {"timeout_s": 0.3} if model == "slow" else {}
    with pytest.raises(InfraError):
        served(server, model, **options).write([request()], samples=1, sampling=Sampling())
    with pytest.raises(InfraError):
        served(server, model, **options).chat(
            [[Message("user", "hello")]], samples=1, sampling=Sampling()
        )


def test_what_was_answered_before_a_failure_is_given_back(server):
    requests = [request(64), request(128), request(256)]
    policy = served(server, "tires-first", concurrency=1)
    with pytest.raises(Interrupted, match="127") as caught:
        policy.write(requests, samples=2, sampling=WARM)
    assert [[answer.text for answer in each] for each in caught.value.answers] == [
        ["an answer", "an answer"],
        ["an answer"],
        [],
    ]
    assert len(server.asked("tires-first")) == 4  # nothing more was begun


def test_a_refused_request_is_the_user_s(server):
    with pytest.raises(UsageError, match="404"):
        served(server, "nobody").write([request()], samples=1, sampling=Sampling())
