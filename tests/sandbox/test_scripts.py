"""Scripts of other people: how they end is known, and they reach nothing of the machine."""

import pytest

from kernelwright.core.errors import InfraError
from kernelwright.sandbox.host.scripts import ScriptRunner

KERNEL = """
import torch, triton, triton.language as tl
@triton.jit
def doubled(x, y, N: tl.constexpr):
    place = tl.arange(0, N)
    tl.store(y + place, 2 * tl.load(x + place))
x = torch.arange(16).float()
y = torch.empty_like(x)
doubled[(1,)](x, y, N=16)
print(y.sum().item())
"""
FORKS = "import os, time\nif os.fork() == 0:\n    time.sleep(60)\n"


@pytest.fixture(scope="module")
def runner():
    with ScriptRunner("cpu") as runner:
        yield runner


@pytest.mark.slow
def test_exit_code_and_printed_text_are_those_of_the_script(runner):
    outcome = runner.run("print('hello')", 30.0)
    assert (outcome.code, outcome.stdout) == (0, b"hello\n")
    assert runner.run(KERNEL, 30.0).stdout == b"240.0\n"
    assert runner.run("import os; os._exit(7)", 30.0).code == 7
    assert runner.run("import sys; sys.exit('no')", 30.0).code == 1
    assert runner.run("import own; print(own.__name__)", 30.0, "own.py").code == 0
    failed = runner.run("raise ValueError('why')", 30.0)
    assert failed.code == 1
    assert failed.stderr.endswith("ValueError: why\n")


@pytest.mark.slow
def test_a_script_that_hangs_is_ended_and_the_next_one_runs(runner):
    assert runner.run("while True: pass", 1.0).code is None
    assert runner.run(FORKS, 30.0).seconds < 20.0  # what it left behind is not waited for
    assert runner.run("pass", 30.0).code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "attempt",
    [
        "open('/etc/kernelwright', 'w')",
        "import os; os.listdir(os.path.expanduser('~root'))",
        "open(__file__, 'w')",
        "import socket; socket.socket()",
        "import os; os.kill(os.getppid(), 9)",
    ],
)
def test_a_script_reaches_nothing_outside_its_folder(runner, attempt):
    assert runner.run(attempt, 30.0).code != 0


@pytest.mark.slow
def test_a_process_that_is_gone_is_a_failure_of_ours_and_is_replaced(runner):
    runner.run("pass", 30.0)
    runner._process.kill()
    with pytest.raises(InfraError, match="has ended"):
        runner.run("pass", 30.0)
    assert runner.run("pass", 30.0).code == 0
