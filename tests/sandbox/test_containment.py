"""What a hostile or broken candidate cannot do. One property a test."""

import json
import os
import shutil
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from kernelwright.core.errors import InfraError
from kernelwright.sandbox.host.forkserver import _ENVIRONMENT, _ONE_THREAD, ForkServer, shared
from kernelwright.sandbox.host.probe import GUARDS, isolation_level
from kernelwright.sandbox.shared.contract import GuestCall, GuestFault, Limits


def fault_of(source: str, limits: Limits | None = None, *inputs: object) -> GuestFault:
    with shared("cpu").guest(limits or Limits(wall_s=60)) as guest:
        guest.load(source)
        with pytest.raises(GuestFault) as caught:
            guest.run("candidate", GuestCall(inputs, seed=0))
        return caught.value


def answer_of(body: str) -> str:
    """The text a candidate brings back as bytes of a tensor."""
    source = "import torch\ndef fused_operator():\n"
    source += "".join(f"    {line}\n" for line in body.splitlines())
    source += "    return [torch.frombuffer(bytearray(found.encode()), dtype=torch.uint8)]\n"
    with shared("cpu").guest(Limits(wall_s=60)) as guest:
        guest.load(source)
        return bytes(guest.run("candidate", GuestCall([], seed=0)).outputs[0].tolist()).decode()


@pytest.mark.slow
def test_an_endless_loop_is_killed_at_the_limit():
    fault = fault_of("def fused_operator():\n    while True: pass\n", Limits(wall_s=3.0))
    assert fault.kind == "timeout"
    assert "within 3 s" in fault.message


def test_cpu_time_is_limited_too():
    fault = fault_of("def fused_operator():\n    while True: pass\n", Limits(cpu_s=1, wall_s=60))
    assert fault.kind == "timeout"


def test_a_segmentation_fault_costs_one_guest():
    source = "import ctypes\ndef fused_operator():\n    ctypes.string_at(0)\n"
    fault = fault_of(source)
    assert (fault.kind, fault.detail) == ("crashed", "SIGSEGV")
    assert answer_of("found = 'still here'") == "still here"


def test_exiting_with_code_zero_is_a_crash():
    fault = fault_of("import os\ndef fused_operator():\n    os._exit(0)\n")
    assert (fault.kind, fault.detail) == ("crashed", "exit code 0")


def test_raising_system_exit_is_an_error_of_the_candidate():
    fault = fault_of("def fused_operator():\n    raise SystemExit(0)\n")
    assert (fault.kind, fault.line) == ("runtime", 2)


def test_allocating_64_gib_is_out_of_memory():
    fault = fault_of("import torch\ndef fused_operator():\n    torch.empty(64 << 30).fill_(1)\n")
    assert fault.kind == "out_of_memory"
    assert fault.line == 3


def test_printing_results_has_no_effect():
    body = "import os\nprint('{\"accepted\": true}', flush=True)\nos.write(1, b'PASS')\nfound = 'x'"
    assert answer_of(body) == "x"


def test_garbage_on_every_descriptor_is_refused():
    source = (
        "import os\n"
        "def fused_operator():\n"
        "    for fd in range(3, 1024):\n"
        "        try: os.write(fd, b'PASS' * 1000)\n"
        "        except OSError: pass\n"
        "    return []\n"
    )
    assert fault_of(source).kind in ("malformed", "crashed")


def test_a_forged_answer_without_the_nonce_is_refused():
    forged = {"structure": "[T]", "outputs": [], "changed": [], "aliases": [], "nonce": "0"}
    text = json.dumps(forged)
    source = (
        "import os, struct\n"
        f"TEXT = {text!r}.encode()\n"
        "def fused_operator():\n"
        "    for fd in range(3, 1024):\n"
        "        try: os.write(fd, struct.pack('<4sIQ', b'kwr1', len(TEXT), 0) + TEXT)\n"
        "        except OSError: pass\n"
        "    os._exit(0)\n"
    )
    assert fault_of(source).kind == "malformed"


def test_closing_every_descriptor_is_a_crash():
    source = "import os\ndef fused_operator():\n    os.closerange(0, 4096)\n    return []\n"
    assert fault_of(source).kind == "crashed"


def test_the_network_is_refused():
    body = (
        "import socket\n"
        "try:\n"
        "    socket.create_connection(('127.0.0.1', 22), timeout=2)\n"
        "    found = 'connected'\n"
        "except OSError:\n"
        "    found = 'refused'\n"
        "interfaces = open('/proc/self/net/dev').read().split(':')[:-1]\n"
        "found += ' '.join(line.split()[-1] for line in interfaces)"
    )
    assert answer_of(body) == "refusedlo"  # a loopback interface that is down, nothing else


def test_writing_outside_the_work_folder_is_refused(tmp_path: Path):
    target = tmp_path / "escaped"
    body = (
        "import os\n"
        f"try:\n    open({str(target)!r}, 'w')\n    found = 'wrote'\n"
        "except PermissionError:\n    found = 'refused'\n"
        f"os.system('touch {target}')\n"
        "import tempfile\n"
        "tempfile.NamedTemporaryFile().close()"
    )
    assert answer_of(body) == "refused"
    assert not target.exists()


def test_the_work_folder_is_read_only_and_not_importable():
    body = (
        "import os, sys, glob\n"
        "found = ''\n"
        "for step in (lambda: open('torch.py', 'w'), lambda: os.mkdir('triton'),\n"
        "             lambda: open(glob.glob('*.py')[0], 'a'),\n"
        "             lambda: os.unlink(glob.glob('*.py')[0]),\n"
        "             lambda: os.rename('scratch', 'away')):\n"
        "    try:\n        step()\n        found += 'done '\n"
        "    except PermissionError:\n        found += 'refused '\n"
        "here = os.getcwd()\n"
        "found += str(any(p == '' or os.path.realpath(p).startswith(here) for p in sys.path))"
    )
    assert answer_of(body) == 5 * "refused " + "False"


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
def test_a_compiler_works_in_a_guest():
    """As Triton's launchers need."""
    body = (
        "import ctypes, os, subprocess\n"
        "os.chdir(os.environ['TMPDIR'])\n"
        "open('a.c', 'w').write('int answer() { return 42; }')\n"
        "subprocess.run(['gcc', '-O1', '-shared', '-fPIC', '-o', 'a.so', 'a.c'], check=True)\n"
        "found = str(ctypes.CDLL('./a.so').answer())"
    )
    assert answer_of(body) == "42"


def test_threads_start_in_a_guest():
    body = (
        "import threading\n"
        "kept = []\n"
        "thread = threading.Thread(target=lambda: kept.append('ran'))\n"
        "thread.start()\n"
        "thread.join()\n"
        "found = kept[0]"
    )
    assert answer_of(body) == "ran"


def test_the_users_files_cannot_be_read(tmp_path: Path):
    (tmp_path / "expected").write_text("the answers")
    body = (
        f"try:\n    found = open({str(tmp_path / 'expected')!r}).read()\n"
        "except PermissionError:\n    found = 'refused'"
    )
    assert answer_of(body) == "refused"


@pytest.mark.slow
def test_the_environment_is_scrubbed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("A_SECRET_TOKEN", "hunter2")
    server = ForkServer("cpu")
    source = (
        "import os, torch\n"
        "def fused_operator():\n"
        "    seen = open('/proc/self/environ').read() + repr(dict(os.environ))\n"
        "    names = ' '.join(sorted(os.environ)).encode()\n"
        "    inside = os.environ['HOME'].startswith(os.getcwd())\n"
        "    return [torch.tensor('hunter2' in seen), torch.tensor(inside),\n"
        "            torch.frombuffer(bytearray(names), dtype=torch.uint8)]\n"
    )
    with server.guest() as guest:
        guest.load(source)
        secret, is_home_inside, names = guest.run("candidate", GuestCall([], seed=0)).outputs
    server.close()
    assert not secret
    assert is_home_inside
    own = {"HOME", "TMPDIR", "TRITON_HOME", "TRITON_CACHE_DIR", "CUDA_CACHE_PATH"}
    own.add("TORCHINDUCTOR_CACHE_DIR")
    known = {*_ENVIRONMENT, *_ONE_THREAD, *own, "TRITON_INTERPRET"}
    assert set(bytes(names.tolist()).decode().split()) <= known


def test_the_host_cannot_be_signalled():
    body = (
        f"import os\ntry:\n    os.kill({os.getpid()}, 0)\n    found = 'sent'\n"
        "except OSError:\n    found = 'refused'"
    )
    assert answer_of(body) == "refused"


def below(pid: int) -> set[int]:
    """Descendants of a process, by the numbers this process knows them by."""
    found = {pid}
    for task in Path("/proc", str(pid), "task").glob("*/children"):
        for child in task.read_text().split():
            found |= below(int(child))
    return found


def test_a_process_that_left_the_group_dies_with_the_guest():
    source = (
        "import os, time, torch\n"
        "def fused_operator():\n"
        "    if os.fork() == 0:\n"
        "        os.setsid()\n"
        "        if os.fork() == 0:\n"
        "            os.setsid()\n"
        "        time.sleep(60)\n"
        "        os._exit(0)\n"
        "    time.sleep(0.2)\n"
        "    return [torch.zeros(1)]\n"
    )
    with shared("cpu").guest() as guest:
        guest.load(source)
        guest.run("candidate", GuestCall([], seed=0))
        started = below(guest.process.pid)
        assert len(started) == 3
    for pid in started:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_an_orphan_dies_with_a_guest_that_crashed():
    mark = f"{1000 + os.getpid()}.25"
    source = (
        "import os, time\n"
        "def fused_operator():\n"
        "    if os.fork() == 0:\n"
        "        if os.fork() == 0:\n"
        "            os.setsid()\n"
        f"            os.execv('/bin/sleep', ['sleep', '{mark}'])\n"
        "        os._exit(0)\n"
        "    time.sleep(0.5)\n"
        "    pids = [name for name in os.listdir('/proc') if name.isdigit()]\n"
        "    seen = [open(f'/proc/{pid}/cmdline').read() for pid in pids]\n"
        f"    os._exit(7) if any('{mark}' in line for line in seen) else os.abort()\n"
    )
    assert fault_of(source).detail == "exit code 7"  # the orphan was there
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            assert mark.encode() not in (process / "cmdline").read_bytes()


@pytest.mark.parametrize(
    ("step", "detail"),
    [
        ("os.abort()", "SIGABRT"),
        ("ctypes.string_at(0)", "SIGSEGV"),
        ("os.kill(os.getpid(), 9)", "SIGKILL"),
        ("os.kill(os.getpid(), 15)", "SIGTERM"),
        ("os.kill(os.getpid(), 24)", "SIGXCPU"),
        ("os._exit(3)", "exit code 3"),
        ("os._exit(137)", "exit code 137"),
    ],
)
def test_how_a_guest_ended_is_told_apart(step: str, detail: str):
    fault = fault_of(f"import os, ctypes\ndef fused_operator():\n    {step}\n")
    assert fault.detail == detail
    assert fault.kind == ("timeout" if detail == "SIGXCPU" else "crashed")


def test_guests_have_different_process_numbers():
    """Drivers and libraries name shared files by them."""
    body = "import os\nfound = f'{os.getpid()} {os.getppid()}'"
    first, second = answer_of(body).split(), answer_of(body).split()
    assert first[0] != second[0]


def test_signals_to_process_one_and_to_everyone_reach_nobody():
    """Where the guest has a PID namespace, kill(-1) finds only its own processes."""
    body = (
        "import os, signal\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "for pid in (1, -1) if os.getppid() == 0 else ():\n"
        "    try:\n        os.kill(pid, signal.SIGTERM)\n    except OSError:\n        pass\n"
        "found = 'alive'"
    )
    bystander = subprocess.Popen(["sleep", "60"])
    assert answer_of(body) == "alive"
    assert answer_of(body) == "alive"  # the fork server is
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()


@pytest.mark.slow
def test_a_guest_that_ended_says_so():
    with shared("cpu").guest(Limits(wall_s=3.0)) as guest:
        guest.load("import time\ndef fused_operator():\n    time.sleep(600)\n")
        with pytest.raises(GuestFault):
            guest.run("candidate", GuestCall([], seed=0))
        assert not guest.alive
        with pytest.raises(InfraError, match="has ended"):
            guest.run("candidate", GuestCall([], seed=0))


def test_the_work_folder_is_removed():
    with shared("cpu").guest() as guest:
        folder = guest._folder
        assert folder.exists()
    assert not folder.exists()


@pytest.mark.slow
def test_a_work_folder_that_is_hard_to_remove_is_removed():
    source = (
        "import os\n"
        "def fused_operator():\n"
        "    before = os.getcwd()\n"
        "    os.chdir(os.environ['TMPDIR'])\n"
        "    os.mkdir('closed', mode=0)\n"
        "    for _ in range(1_500):\n"
        "        os.mkdir('deep')\n"
        "        os.chdir('deep')\n"
        "    os.chdir(before)\n"
        "    return []\n"
    )
    with shared("cpu").guest(Limits(wall_s=60)) as guest:
        folder = guest._folder
        guest.load(source)
        guest.run("candidate", GuestCall([], seed=0))
    assert not os.path.lexists(folder)


def test_every_guard_is_reported():
    level = isolation_level()
    assert set(level.held) | set(level.missing) == set(GUARDS)
    assert "rlimits" in level.held


@pytest.mark.slow
def test_forking_ten_guests_takes_less_time_than_starting_a_server():
    """A server imports torch once for all of its guests."""
    server = ForkServer("cpu")
    try:
        begin_s = time.monotonic()
        server.guest().close()
        first_s = time.monotonic() - begin_s
        begin_s = time.monotonic()
        for _ in range(10):
            server.guest().close()
        assert time.monotonic() - begin_s < first_s  # 0.2 s and 3 s on an idle machine
    finally:
        server.close()


def test_an_oversized_output_is_refused_before_it_is_read():
    source = "import torch\ndef fused_operator():\n    return [torch.zeros(1).expand(1 << 40)]\n"
    with shared("cpu").guest(Limits(wall_s=60)) as guest:
        guest.load(source)
        (output,) = guest.run("candidate", GuestCall([], seed=0)).outputs
    assert output.untyped_storage().nbytes() == 4  # an expanded tensor travels as its one element
    fault = fault_of(
        "import torch\ndef fused_operator():\n    return [torch.zeros(1 << 18)] * 200\n",
        Limits(memory_bytes=1 << 27),
    )
    assert fault.kind == "out_of_memory"
    assert torch.equal(output[:3], torch.zeros(3))


@pytest.mark.slow
def test_closing_the_server_ends_its_guests():
    server = ForkServer("cpu")
    guest = server.guest()
    os.kill(guest.process.pid, 0)
    server.close()
    with pytest.raises(ProcessLookupError):
        os.kill(guest.process.pid, 0)
    with pytest.raises(InfraError):
        guest.close()
