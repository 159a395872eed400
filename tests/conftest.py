"""Settings of every test, and what tests of several layers share."""

import base64
import json
import os
import socket
import subprocess
import sys
import time
import zlib
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from urllib.request import urlopen

import pytest
from hypothesis import HealthCheck, settings

# Machines are shared and noisy: a slow example says nothing about the code.
settings.register_profile("noisy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("noisy")


SLOW_SHARE = 20
"""`make test` runs about one in so many slow tests."""


def pytest_addoption(parser):
    parser.addoption(
        "--slow",
        choices=["all", "some"],
        default="all",
        help="Run all slow tests, or the share that the last commit draws.",
    )


def pytest_collection_modifyitems(config, items):
    """Leave out the slow tests that the last commit does not draw.

    All processes of a run draw the same tests, and the same commit draws them again. Tests that
    build on each other (`slow(together=NAME)`) are drawn together.
    """
    if config.getoption("slow") == "all":
        return
    commit = _last_commit()
    kept, left_out = [], []
    for item in items:
        mark = item.get_closest_marker("slow")
        name = mark.kwargs.get("together", item.nodeid) if mark else ""
        is_drawn = mark is None or zlib.crc32(f"{commit} {name}".encode()) % SLOW_SHARE == 0
        (kept if is_drawn else left_out).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept


def pytest_terminal_summary(terminalreporter, config):
    if config.getoption("slow") == "some":
        terminalreporter.write_line(
            f"slow tests: about one in {SLOW_SHARE}, drawn by commit {_last_commit()[:12]}; "
            "`make test-all` runs all"
        )


def _last_commit():
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    return run.stdout.strip() or "none"


@dataclass(frozen=True)
class Server:
    """A running endpoint_server.py."""

    port: int

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/v1"

    def replying(self, text):
        """The name of a model that answers this."""
        return f"reply:{_encoded(text)}"

    def learning(self, *texts):
        """The name of a model that answers the first, and the next whenever it is asked again."""
        return f"learns:{'.'.join(map(_encoded, texts))}"

    def asked(self, model):
        """The requests to a model, oldest first."""
        with urlopen(f"http://127.0.0.1:{self.port}/log") as answer:
            return [request for request in json.load(answer) if request["model"] == model]


def _encoded(text):
    return base64.b64encode(text.encode(errors="surrogatepass")).decode()


@pytest.fixture
def server():
    pytest.importorskip("openai", reason="needs the extra llm")
    script = Path(__file__).with_name("endpoint_server.py")
    command = [sys.executable, str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield Server(int(process.stdout.readline()))
        process.terminate()


@pytest.fixture(scope="session")
def served_embedded():
    """The name, as a policy, of the embedded model behind `transformers serve`."""
    command = Path(sys.executable).with_name("transformers")
    needed = ("openai", "transformers", "tokenizers", "fastapi", "uvicorn", "accelerate")
    missing = [name for name in needed if find_spec(name) is None]
    if missing or not command.exists():
        pytest.skip(f"not installed: {', '.join(missing) or command.name}")
    folder = files("kernelwright.policy") / "weights"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    serve = [command, "serve", folder, "--port", str(port), "--device", "cpu"]
    with subprocess.Popen(serve, env=environment, **quiet) as process:
        end_s = time.monotonic() + 120
        while not _is_up(port) and process.poll() is None and time.monotonic() < end_s:
            time.sleep(0.5)
        yield f"openai:http://localhost:{port}/v1#{folder}"
        process.terminate()


def _is_up(port):
    try:
        with urlopen(f"http://localhost:{port}/health", timeout=1):
            return True
    except OSError:
        return False
