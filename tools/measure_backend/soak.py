"""Calls of one module behind the backend with changing shapes, from several threads and streams."""

import json
import random
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from kernelwright.compile.backend import Compiler
from kernelwright.compile.settings import BackendSettings
from kernelwright.core.record import Record, environment

NUM_CALLS, NUM_THREADS, WIDTH, MOST_ROWS = 10_000, 4, 256, 300
TOLERANCE = 1e-4


class Block(nn.Module):
    """A normalization, products and a softmax: fragments of several kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = (
            nn.LayerNorm(WIDTH),
            nn.Linear(WIDTH, 64),
            nn.Linear(64, WIDTH),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.down(torch.tanh(self.up(self.norm(x))))
        return x + hidden.softmax(-1)


def soak(num_calls: int, compiler: Compiler, device: torch.device) -> Record:
    """Call the module with 1 to `MOST_ROWS` rows, mostly few, and compare results with PyTorch's.

    Returns:
        "calls", "wrong" (results beyond the tolerance), "failed" (texts of errors) and "graphs".
    """
    torch.manual_seed(0)
    module = Block().to(device).eval()
    fast = torch.compile(module, backend=compiler)
    wrong, failed = [0] * NUM_THREADS, list[str]()

    def calls(thread: int) -> None:
        draw = random.Random(thread)
        with torch.no_grad(), _stream(device):
            for _ in range(num_calls // NUM_THREADS):
                rows = draw.randint(1, draw.choice((8, MOST_ROWS)))
                x = torch.randn(rows, WIDTH, device=device)
                result, expected = fast(x), module(x)
                wrong[thread] += not torch.allclose(
                    result, expected, rtol=TOLERANCE, atol=TOLERANCE
                )

    def guarded(thread: int) -> None:
        try:
            calls(thread)
        except Exception as error:  # the record says what no call may raise
            failed.append(f"{type(error).__name__}: {error}"[:300])

    threads = [threading.Thread(target=guarded, args=(n,)) for n in range(NUM_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    graphs = [str(report).split("\n")[0] for report in compiler.reports]
    return {"calls": num_calls, "wrong": sum(wrong), "failed": failed, "graphs": graphs}


@contextmanager
def _stream(device: torch.device) -> Iterator[None]:
    """A stream of the thread's own, on a GPU."""
    if device.type != "cuda":
        yield
        return
    stream: Any = torch.cuda.Stream  # without types in PyTorch
    with torch.cuda.stream(stream()):
        yield


def main(library: str, budget_s: str) -> None:
    """Print the record of a soak on the GPU as a line of JSON."""
    settings = BackendSettings.of(
        {"library": library, "budget_s": float(budget_s), "search": "background"}
    )
    facts: Record = {"record": "backend_model", "model": "block", "dtype": "float32"}
    facts |= {"phase": "soak", **soak(NUM_CALLS, Compiler(settings), torch.device("cuda"))}
    sys.stdout.write(json.dumps(facts | {"environment": environment()}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
