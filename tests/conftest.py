"""Settings of every test, and what tests of several layers share."""

import base64
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import pytest
from hypothesis import HealthCheck, settings

# Machines are shared and noisy: a slow example says nothing about the code.
settings.register_profile("noisy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("noisy")


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
    return base64.b64encode(text.encode()).decode()


@pytest.fixture
def server():
    pytest.importorskip("openai", reason="needs the extra llm")
    script = Path(__file__).with_name("endpoint_server.py")
    command = [sys.executable, str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield Server(int(process.stdout.readline()))
        process.terminate()
