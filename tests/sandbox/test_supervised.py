"""A reference that ends or hangs its process is the user's mistake: exit code 2, never 0."""

import os
import signal
import subprocess
import sys

import pytest

from kernelwright.core.errors import InfraError, UsageError
from kernelwright.sandbox.host import supervised
from kernelwright.verify.apart import verify_apart

CHILD = (
    "from kernelwright.sandbox.host import supervised as s\nimport os, signal, time\ns.attach()\n"
)
REFERENCE = """\
import os, signal, time
import torch


def get_inputs():
    {draw}
    return [torch.randn(8)]


def fused_operator(x):
    return [torch.relu(x)]
"""
KERNEL = """\
import triton


@triton.jit
def kernel(x):
    pass


def fused_operator(x):
    return [x]
"""


def child(code):
    return [sys.executable, "-c", CHILD + code]


def supervise(code):
    return supervised.supervise(child(code))


@pytest.mark.parametrize("code", [0, 1, 3])
def test_a_child_that_says_it_is_done_ends_with_its_own_code(code):
    assert supervise(f"s.done({code})") == code


def test_a_code_that_was_announced_holds_whatever_the_child_does_then():
    assert supervise("s.done(1)\nos._exit(0)") == 1


ENDINGS = {
    "exits with zero": ("os._exit(0)", "get_x ended the process: it exited with 0"),
    "exits with one": ("os._exit(1)", "it exited with 1"),
    "is killed": ("os.kill(os.getpid(), signal.SIGKILL)", "ended by SIGKILL"),
    "crashes": ("os.kill(os.getpid(), signal.SIGSEGV)", "ended by SIGSEGV"),
}


@pytest.mark.parametrize(("end", "said"), ENDINGS.values(), ids=ENDINGS)
def test_user_code_that_ends_the_process_is_a_usage_error(end, said):
    with pytest.raises(UsageError, match=said):
        supervise(f"with s.user_code('get_x'): {end}\ns.done(0)")


def test_an_end_outside_of_user_code_is_never_a_success():
    with pytest.raises(UsageError, match="before the result was known"):
        supervise("os._exit(0)")
    with pytest.raises(InfraError, match="SIGKILL"):
        supervise("os.kill(os.getpid(), signal.SIGKILL)")


def test_user_code_that_does_not_return_is_ended_at_its_limit():
    with pytest.raises(UsageError, match="get_x did not return within 0 s"):
        supervise("with s.user_code('get_x', 0.2): time.sleep(60)")
    with pytest.raises(UsageError, match="did not return"):
        supervise("s.limit_user_code(0.2)\nwith s.user_code('get_x'): time.sleep(60)")


def test_what_runs_after_user_code_has_no_limit():
    code = "with s.user_code('get_x', 0.1): pass\ntime.sleep(0.8)\ns.done(0)"
    assert supervise(code) == 0


def test_the_inner_of_two_is_named_and_then_the_outer_again():
    inner = "with s.user_code('outer'):\n  with s.user_code('inner'): "
    with pytest.raises(UsageError, match="inner ended the process"):
        supervise(f"{inner}os._exit(0)")
    with pytest.raises(UsageError, match="outer ended the process"):
        supervise(f"{inner}pass\n  os._exit(0)")


def test_a_process_forked_from_the_child_says_nothing():
    code = (
        "if os.fork() == 0:\n"
        "  with s.user_code('a fork'): os._exit(0)\n"
        "os.wait()\ntime.sleep(0.1)\nos._exit(0)"
    )
    with pytest.raises(UsageError, match="before the result was known"):
        supervise(code)


def test_the_childs_children_do_not_inherit_the_variable():
    code = "s.done(int('KERNELWRIGHT_SUPERVISOR' in os.environ))"
    assert supervise(code) == 0
    assert supervised.VARIABLE not in os.environ


def test_signal_handlers_of_the_parent_are_put_back():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(UsageError):
        supervise("os._exit(0)")
    assert signal.getsignal(signal.SIGTERM) is before


def test_without_a_parent_nothing_is_attached(monkeypatch):
    monkeypatch.delenv(supervised.VARIABLE, raising=False)
    assert not supervised.attach()
    assert not supervised.is_child()
    with supervised.user_code("anything"):
        supervised.tell({"nobody": "listens"})


# -- the commands


def reference(tmp_path, *, draw):
    path = tmp_path / "ref.py"
    path.write_text(REFERENCE.format(draw=draw))
    return path


def command(*words, limit_s=None):
    """Exit code and error text of the command, in a process of its own."""
    run = "from kernelwright.cli import main\nmain.main()\n"
    if limit_s is not None:  # the child is started by another command than the parent
        patch = "import kernelwright.sandbox.host.supervised as s\n"
        patch += f"s.LOAD_S = s.CALL_S = s._child.limit_s = {limit_s}\n"
        again = f"s.command_again = lambda w: [sys.executable, '-c', {patch + run!r}, *w]\n"
        run = f"import sys\n{patch}{again}{run}"
    words = [sys.executable, "-c", run, *map(str, words)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


BAD = {
    "exits with zero": ({"draw": "os._exit(0)"}, "exited with 0"),
    "raises": ({"draw": "raise ValueError('my own')"}, "my own"),
    "is killed": ({"draw": "os.kill(os.getpid(), signal.SIGKILL)"}, "SIGKILL"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("bad", "said"), BAD.values(), ids=BAD)
def test_verify_says_what_the_reference_did_and_exits_with_two(tmp_path, bad, said):
    (tmp_path / "candidate.py").write_text(KERNEL)
    words = "verify", reference(tmp_path, **bad), tmp_path / "candidate.py", "--device", "cpu"
    code, text = command(*words)
    assert code == 2, text
    assert said in text


@pytest.mark.slow
def test_verify_ends_a_reference_that_never_returns(tmp_path):
    path = reference(tmp_path, draw="time.sleep(300)")
    (tmp_path / "candidate.py").write_text(KERNEL)
    code, text = command("verify", path, tmp_path / "candidate.py", "--device", "cpu", limit_s=1)
    assert code == 2, text
    assert "did not return within 1 s" in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("draw", "said"),
    [
        ("os._exit(0)", "exited with 0"),
        ("raise ValueError('my own')", "my own"),
    ],
)
def test_optimize_exits_with_two_and_writes_nothing(tmp_path, draw, said):
    path = tmp_path / "model.py"
    path.write_text(
        "import os, signal\nimport torch\n\n\nclass Model(torch.nn.Module):\n"
        "    def forward(self, x):\n        return torch.relu(x)\n\n\n"
        f"def get_inputs():\n    {draw}\n    return [torch.randn(4)]\n"
    )
    out = tmp_path / "out"
    code, text = command("optimize", path, "--device", "cpu", "--out", out)
    assert code == 2, text
    assert said in text
    assert not out.exists()


@pytest.mark.slow
def test_a_library_call_outlives_its_reference(tmp_path):
    request = {"candidate": KERNEL, "device": "cpu"}
    path = reference(tmp_path, draw="os._exit(0)")
    with pytest.raises(UsageError, match="ended the process"):
        verify_apart({"ref": str(path), **request}, lambda _: None)
    gone = {"ref": str(tmp_path / "gone.py"), **request}
    with pytest.raises(UsageError, match="no such file") as said:  # by another child
        verify_apart(gone, lambda _: None)
    assert said.value.file == str(tmp_path / "gone.py")
