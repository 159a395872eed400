"""Answers from a server: in tokens, by weights that the trainer writes; and servers that fail."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest
import torch
from rl_runs import make_recipe, records, run

from kernelwright.core.errors import InfraError, UsageError
from kernelwright.policy.decode import Decoder
from kernelwright.policy.embedded import load_model
from kernelwright.policy.local import stop_tokens
from kernelwright.policy.policy import Sampling


@contextmanager
def served(folder, *, tells_tokens=True, reloads=True):
    """A server as vLLM's: completions in tokens, and weights read anew when it is told to."""
    state = SimpleNamespace(decoder=None, asked=[], told=[], lock=threading.Lock())

    def load():
        model, tokenizer = load_model(folder, "cpu", torch.float32)
        state.decoder = Decoder(model, stops=stop_tokens(model, tokenizer))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with state.lock:
                self.answer(request)

        def answer(self, request):
            if self.path == "/collective_rpc" and reloads:
                state.told.append(request["method"])
                load()
                return self.send({"results": [None]})
            if self.path == "/reset_prefix_cache":
                state.told.append("reset")
                return self.send({})
            if self.path == "/v1/completions":
                state.asked.append(request)
                return self.send(self.completion(request))
            return self.send({"error": "no such path"}, 404)

        def completion(self, request):
            sampling = Sampling(
                temperature=request["temperature"], max_tokens=request["max_tokens"]
            )
            (found,) = state.decoder.decode(
                [request["prompt"]], seeds=[request["seed"]], sampling=sampling
            )
            tokens = [*found.tokens, *([] if found.end is None else [found.end])]
            choice = {"index": 0, "text": "", "logprobs": None}
            choice["finish_reason"] = "length" if found.is_cut_off else "stop"
            if tells_tokens and request["return_token_ids"]:
                choice["token_ids"] = tokens
            head = {"id": "c", "object": "text_completion", "created": 0, "model": "m"}
            return {**head, "choices": [choice]}

        def send(self, value, status=200):
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Keeps stderr quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        state.url = f"openai:http://127.0.0.1:{server.server_port}/v1#policy"
        yield state
    finally:
        server.shutdown()
        server.server_close()


def recipe_of(made, server, folder, **changes):
    rollouts = {"policy": server.url, "served": str(folder), "programs": 3, "group": 4}
    return make_recipe(
        *made,
        rollouts=rollouts,
        validation={"every_steps": 100, "programs": 1},
        budget={"steps": 2},
        **changes,
    )


@pytest.mark.slow
def test_a_server_answers_with_the_weights_of_every_step(made, tmp_path):
    folder = tmp_path / "served"
    with served(folder) as server:
        run(recipe_of(made, server, folder), tmp_path / "run")
    assert server.told == ["reload_weights", "reset"] * 3, "before each step, and at the end"
    held_out = sum(request["temperature"] == 0.0 for request in server.asked)
    assert len(server.asked) == held_out + 2 * 12
    drawn = [request["seed"] for request in server.asked if request["temperature"]]
    assert len(set(drawn)) == 24
    for line in records(tmp_path / "run", "rl_step"):
        assert line["rollouts"] == 12
        assert line["answers"]["candidate"] > 6
    before, after = (
        load_model(each, "cpu", torch.float32)[0].state_dict() for each in (made[0], folder)
    )
    assert any((after[name] != before[name].bfloat16()).any() for name in before)


@pytest.mark.slow
def test_a_server_that_tells_no_tokens_is_no_use(made, tmp_path):
    folder = tmp_path / "served"
    with (
        served(folder, tells_tokens=False) as server,
        pytest.raises(UsageError, match="as text alone"),
    ):
        run(recipe_of(made, server, folder), tmp_path / "run")


def test_a_server_that_reads_no_weights_anew_ends_the_run(made, tmp_path):
    folder = tmp_path / "served"
    with (
        served(folder, reloads=False) as server,
        pytest.raises(InfraError, match="VLLM_SERVER_DEV_MODE"),
    ):
        run(recipe_of(made, server, folder), tmp_path / "run")


def test_a_server_and_its_folder_belong_together(made):
    with pytest.raises(UsageError, match="belong together"):
        make_recipe(*made, rollouts={"policy": "openai:http://localhost:1/v1#m"})
