"""A real server with a tiny untrained model: `transformers serve`, where it is installed."""

import os
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from kernelwright.policy.endpoint import Endpoint, Message

NEEDED = ("openai", "transformers", "tokenizers", "fastapi", "uvicorn", "accelerate")
COMMAND = Path(sys.executable).with_name("transformers")
missing = [name for name in NEEDED if find_spec(name) is None]
pytestmark = [
    pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}"),
    pytest.mark.skipif(not COMMAND.exists(), reason="no transformers command"),
]


def save_model(folder):
    """A one-layer Llama over bytes."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    symbols = ["<s>", "</s>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    letters = Tokenizer(models.BPE(vocab={s: i for i, s in enumerate(symbols)}, merges=[]))
    letters.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    letters.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=letters, bos_token="<s>", eos_token="</s>")
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}\n{% endfor %}"
    tokenizer.save_pretrained(folder)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
    config = LlamaConfig(vocab_size=len(symbols), num_attention_heads=2, **sizes)
    LlamaForCausalLM(config).save_pretrained(folder)


def is_up(port):
    try:
        with urlopen(f"http://localhost:{port}/health", timeout=1):
            return True
    except (URLError, OSError):
        return False


def test_a_served_model_answers(tmp_path):
    save_model(tmp_path)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [COMMAND, "serve", tmp_path, "--port", str(port), "--device", "cpu"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    with subprocess.Popen(command, env=environment, **quiet) as process:
        try:
            end_s = time.monotonic() + 120
            while not is_up(port) and process.poll() is None and time.monotonic() < end_s:
                time.sleep(0.5)
            endpoint = Endpoint.parse(f"openai:http://localhost:{port}/v1#{tmp_path}")
            answer = endpoint.complete([Message("user", "hello")], max_tokens=5)
        finally:
            process.terminate()
    assert 1 <= answer.completion_tokens <= 5
    assert answer.prompt_tokens >= len("hello")
