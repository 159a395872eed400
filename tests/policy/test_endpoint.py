"""An endpoint against a server in a process of its own that speaks the protocol."""

import socket
import subprocess
import sys
import time

import pytest

from kernelwright.core.errors import InfraError, UsageError
from kernelwright.policy.endpoint import Endpoint, Message

HELLO = [Message("system", "be short"), Message("user", "hello")]


def ask(server, model, **options):
    endpoint = Endpoint.parse(f"openai:{server.url}#{model}", **options)
    return endpoint.complete(HELLO, max_tokens=16)


def test_a_completion_has_the_text_of_the_answer(server):
    model = server.replying("hello to you")
    answer = ask(server, model)
    assert answer == "hello to you"
    (asked,) = server.asked(model)
    assert asked["messages"] == [
        {"role": "system", "content": "be short"},
        {"role": "user", "content": "hello"},
    ]
    assert (asked["max_tokens"], asked["temperature"]) == (16, 0.0)


def test_a_failure_that_passes_is_tried_again(server):
    assert ask(server, "flaky") == "at last"
    assert len(server.asked("flaky")) == 3


def test_a_busy_server_says_how_long_to_wait(server):
    start_s = time.monotonic()
    assert ask(server, "busy") == "now"
    assert time.monotonic() - start_s >= 1.0
    assert len(server.asked("busy")) == 2


def test_a_server_that_stays_down_is_an_infrastructure_failure(server):
    with pytest.raises(InfraError, match="503"):
        ask(server, "down", max_retries=1)
    assert len(server.asked("down")) == 2


def test_an_answer_that_takes_too_long_is_given_up(server):
    with pytest.raises(InfraError):
        ask(server, "slow", timeout_s=0.3, max_retries=1)
    assert len(server.asked("slow")) == 2


def test_nobody_at_the_address_is_an_infrastructure_failure():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    with pytest.raises(InfraError, match="onnect"):
        Endpoint(url, "m", max_retries=0).complete(HELLO, max_tokens=1)


def test_a_wrong_key_is_the_users_to_mend(server, monkeypatch):
    monkeypatch.setenv("OTHER_KEY", "wrong")
    with pytest.raises(UsageError, match="OTHER_KEY"):
        ask(server, "locked", key_variable="OTHER_KEY")
    monkeypatch.setenv("OTHER_KEY", "secret")
    assert ask(server, "locked", key_variable="OTHER_KEY") == "in"


def test_an_unknown_model_or_path_is_the_users_to_mend(server):
    with pytest.raises(UsageError, match="no model nobody"):
        ask(server, "nobody")
    wrong = Endpoint.parse(f"openai:{server.url}/wrong#m")
    with pytest.raises(UsageError, match="API's base"):
        wrong.complete(HELLO, max_tokens=1)


@pytest.mark.parametrize(
    "spec",
    ["", "openai:", "openai:http://host/v1", "openai:host#m", "hf:path#m", "openai:http://h/v1# "],
)
def test_a_text_that_names_no_endpoint_says_how_to_write_one(spec):
    with pytest.raises(UsageError, match="openai:URL#model"):
        Endpoint.parse(spec)


def test_a_model_may_have_any_name():
    endpoint = Endpoint.parse("openai:https://host:8000/v1#org/model:7b#q4")
    assert endpoint == Endpoint("https://host:8000/v1", "org/model:7b#q4")


def test_without_the_library_the_remedy_is_named():
    code = (
        "import sys; sys.modules['openai'] = None\n"
        "from kernelwright.core.errors import UsageError\n"
        "from kernelwright.policy.endpoint import Endpoint\n"
        "try: Endpoint('http://h', 'm').ready()\n"
        "except UsageError as error: sys.exit(0 if 'kernelwright[llm]' in error.remedy else 1)\n"
        "sys.exit(2)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_lone_surrogates_reach_neither_the_caller_nor_the_server(server):
    model = server.replying("a\ud800b")
    endpoint = Endpoint.parse(f"openai:{server.url}#{model}")
    answer = endpoint.complete([Message("user", "c\udfffd")], max_tokens=16)
    assert answer == "a\ufffdb"
    (asked,) = server.asked(model)
    assert asked["messages"] == [{"role": "user", "content": "c\ufffdd"}]
