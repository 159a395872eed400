"""Guards are believed only where an attempt to get past them fails; the filter, instruction by
instruction."""

import errno
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from corpus import ROOT
from kernelwright.sandbox.confine import seccomp
from kernelwright.sandbox.host.forkserver import shared
from kernelwright.sandbox.host.probe import GUARDS, WEAK_VARIABLE, isolation_level

SOURCES = Path(seccomp.__file__).parents[3]
NOBODY = 65_534

UNCONFINED = """\
import json, os, sys
from kernelwright.sandbox.host.attempts import fused_operator
from kernelwright.sandbox.host.probe import _targets
with _targets("cpu") as host:
    os.setsid()
    print(bytes(fused_operator(json.dumps(host))[0].tolist()).decode())
"""

LEVEL = """\
from kernelwright.sandbox.host.forkserver import shared
from kernelwright.sandbox.host.probe import isolation_level
with shared("cpu").guest() as guest:
    print(guest.isolation)
print("+".join(isolation_level("cpu").held))
"""


def test_every_guard_that_is_reported_withstands_its_attempt():
    with shared("cpu").guest() as guest:
        reported = set(guest.isolation.split("+"))
    level = isolation_level()
    assert reported == set(level.held)
    assert set(level.held) | set(level.missing) == set(GUARDS)


@pytest.mark.slow
def test_every_attempt_succeeds_where_nothing_guards(tmp_path: Path):
    """Else the probe would call a machine safe that is not."""
    done = subprocess.run(
        [sys.executable, "-c", UNCONFINED],
        cwd=tmp_path,
        env={"PYTHONPATH": str(SOURCES)},
        capture_output=True,
        text=True,
        check=True,
    )
    withstood = {guard for guard, held in json.loads(done.stdout).items() if held}
    assert withstood <= ({"nocaps"} if os.getuid() else set())


@pytest.fixture
def home_of_nobody() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="kernelwright-nobody-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def test_an_ordinary_user_gets_every_guard_that_root_gets(home_of_nobody: Path):
    if os.getuid() != 0:
        pytest.skip("needs root, to become another user")

    def as_nobody(code: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", code],
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            cwd=home_of_nobody,
            env={
                "PYTHONPATH": str(SOURCES),
                "PATH": os.environ["PATH"],
                "HOME": str(home_of_nobody),
                "TMPDIR": str(home_of_nobody),
            },
            capture_output=True,
            text=True,
            check=False,
        )

    try:
        imports = as_nobody("import torch, kernelwright.sandbox.host.probe")
    except PermissionError:
        pytest.skip("other users may not run this interpreter")
    if imports.returncode:
        pytest.skip("other users may not read the packages")
    done = as_nobody(LEVEL)
    assert done.returncode == 0, done.stderr
    reported, held = done.stdout.split()
    assert held.split("+") == list(isolation_level().held)
    assert set(reported.split("+")) == set(held.split("+"))


AS_IN_A_HARDENED_CONTAINER = f"""\
from kernelwright.sandbox.confine import kernel, seccomp
from kernelwright.sandbox.shared.contract import GuestCall
kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
names = ("unshare", "setns", "mount", "move_mount", "seccomp")
seccomp._REFUSED = {{name: seccomp._REFUSED[name] for name in names}}
seccomp._REFUSED_ON_GPU = {{}}
seccomp._asking_only = lambda _: []
seccomp.install(on_gpu=True)
{LEVEL}
with shared("cpu").guest() as guest:
    guest.load("import os\\ndef fused_operator():\\n    os.listdir('/proc')\\n    return []")
    try:
        guest.run("candidate", GuestCall([], seed=0))
    except Exception as error:
        print(str(error).split(":")[1].strip())
"""


@pytest.mark.slow
def test_what_a_machine_refuses_is_missing_and_the_rest_stays():
    """Our own filter plays the container's: no namespaces, no mounts, no filters."""
    done = subprocess.run(
        [sys.executable, "-c", AS_IN_A_HARDENED_CONTAINER],
        env={"PYTHONPATH": str(SOURCES), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    *guards, listing_proc = done.stdout.split()
    reported, held = (set(line.split("+")) for line in guards)
    assert listing_proc == "PermissionError"  # others' processes stay out of sight
    assert reported == held
    assert held == set(isolation_level().held) - {
        "userns", "netns", "ipcns", "pidns", "procfs", "seccomp", "signals"
    }  # fmt: skip


REFUSED_BY_DEFAULT = (
    AS_IN_A_HARDENED_CONTAINER.split("from kernelwright.sandbox.host.forkserver")[0]
    + """
import sys
from kernelwright.cli.main import main
sys.argv = ["kernelwright", "verify", *sys.argv[1:]]
main()
"""
)


@pytest.mark.slow
def test_text_of_others_is_refused_where_an_essential_guard_is_missing(tmp_path: Path):
    reference, candidate = ROOT / "tasks" / "relu.py", ROOT / "honest" / "plain.py"
    environment = {"PYTHONPATH": str(SOURCES), "PATH": os.environ["PATH"], "HOME": str(tmp_path)}

    def verify(**more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", REFUSED_BY_DEFAULT, str(reference), str(candidate)],
            env=environment | more,
            capture_output=True,
            text=True,
            check=False,
        )

    refused = verify()
    assert refused.returncode == 2, refused.stderr
    assert "seccomp" in refused.stderr
    assert WEAK_VARIABLE in refused.stderr
    allowed = verify(**{WEAK_VARIABLE: "allow"})
    assert allowed.returncode == 0, allowed.stderr


# -- the filter

X86_64, AARCH64 = 0, 1
ARCHITECTURE = (0xC000003E, 0xC00000B7)
ALLOWED = 0x7FFF0000
EPERM, ENOSYS = 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS
CLONE_THREAD_FLAGS = 0x3D0F00  # glibc's pthread_create
HARMLESS = {  # read, write, openat, mmap, ioctl, futex, execve, exit_group, wait4
    X86_64: (0, 1, 257, 9, 16, 202, 59, 231, 61),
    AARCH64: (63, 64, 56, 222, 29, 98, 221, 94, 260),
}


def decide(
    machine: int,
    number: int,
    *arguments: int,
    on_gpu: bool,
    architecture: int = 0,
    own_pid: int | None = None,
) -> int:
    """Run the filter as the kernel does."""
    text = seccomp.instructions(machine, on_gpu=on_gpu, own_pid=own_pid)
    words = (*arguments, *[0] * (6 - len(arguments)))
    data = struct.pack("=iIQ6Q", number, architecture or ARCHITECTURE[machine], 0, *words)
    at = value = 0
    while True:
        code, jump_true, jump_false, operand = struct.unpack_from("=HBBI", text, 8 * at)
        at += 1
        if code == 0x20:
            (value,) = struct.unpack_from("=I", data, operand)
        elif code == 0x06:
            return operand
        else:
            test = {0x15: value == operand, 0x35: value >= operand, 0x45: bool(value & operand)}
            at += jump_true if test[code] else jump_false


@pytest.mark.parametrize("machine", [X86_64, AARCH64])
def test_without_a_pid_namespace_signals_reach_the_guest_alone(machine: int):
    kill, tgkill, tkill = ((62, 234, 200), (129, 131, 130))[machine]
    own = 4711
    for number in (kill, tgkill):
        assert decide(machine, number, own, 9, on_gpu=False, own_pid=own) == ALLOWED
        assert decide(machine, number, own + 1, 9, on_gpu=False, own_pid=own) == EPERM
        assert decide(machine, number, 0xFFFFFFFF, 9, on_gpu=False, own_pid=own) == EPERM
        assert decide(machine, number, own + 1, 9, on_gpu=False) == ALLOWED
    assert decide(machine, tkill, own, 9, on_gpu=False, own_pid=own) == EPERM


@pytest.mark.parametrize("machine", [X86_64, AARCH64])
def test_guests_on_a_gpu_ask_for_limits_and_change_none(machine: int):
    prlimit, setrlimit = ((302, 160), (261, 164))[machine]
    assert decide(machine, prlimit, 0, 9, 0, on_gpu=True) == ALLOWED
    assert decide(machine, prlimit, 0, 9, 0x7FFF00000000, on_gpu=True) == EPERM
    assert decide(machine, prlimit, 0, 9, 0x1000, on_gpu=True) == EPERM
    assert decide(machine, prlimit, 0, 9, 0x1000, on_gpu=False) == ALLOWED
    assert decide(machine, setrlimit, on_gpu=True) == EPERM
    assert decide(machine, setrlimit, on_gpu=False) == ALLOWED


@pytest.mark.parametrize("machine", [X86_64, AARCH64])
@pytest.mark.parametrize("on_gpu", [False, True])
def test_the_filter_refuses_what_it_lists_and_lets_the_rest_pass(machine: int, on_gpu: bool):
    for name, numbers in seccomp._REFUSED.items():
        if numbers[machine] is not None:
            assert decide(machine, numbers[machine], on_gpu=on_gpu) == EPERM, name
    for number in HARMLESS[machine]:
        assert decide(machine, number, 0xFFFFFFFF, on_gpu=on_gpu) == ALLOWED


@pytest.mark.parametrize("machine", [X86_64, AARCH64])
@pytest.mark.parametrize("on_gpu", [False, True])
def test_processes_and_threads_start_but_no_namespaces(machine: int, on_gpu: bool):
    clone, clone3 = ((56, 435), (220, 435))[machine]
    assert decide(machine, clone, CLONE_THREAD_FLAGS, on_gpu=on_gpu) == ALLOWED
    assert decide(machine, clone, 17, on_gpu=on_gpu) == ALLOWED  # fork: SIGCHLD
    assert decide(machine, clone, 17 | 0x10000000, on_gpu=on_gpu) == EPERM
    assert decide(machine, clone, 0x8000, on_gpu=on_gpu) == EPERM  # a child of the fork server
    assert decide(machine, clone3, on_gpu=on_gpu) == ENOSYS


@pytest.mark.parametrize("machine", [X86_64, AARCH64])
def test_sockets_and_filters_by_their_first_argument(machine: int):
    socket, prctl = ((41, 157), (198, 167))[machine]
    for family, allowed in ((1, ALLOWED), (16, ALLOWED), (2, EPERM), (10, EPERM), (40, EPERM)):
        assert decide(machine, socket, family, on_gpu=True) == allowed
        assert decide(machine, socket, family, on_gpu=False) == EPERM
    assert decide(machine, prctl, 22, on_gpu=False) == EPERM  # PR_SET_SECCOMP
    assert decide(machine, prctl, 15, on_gpu=False) == ALLOWED  # PR_SET_NAME


@pytest.mark.parametrize("machine", [X86_64, AARCH64])
def test_pairs_of_sockets_are_streams(machine: int):
    """Others could send to sockets of the host that are files."""
    socketpair = (53, 199)[machine]
    for kind, answer in ((1, ALLOWED), (1 | 0x80800, ALLOWED), (2, EPERM), (3, EPERM), (5, EPERM)):
        assert decide(machine, socketpair, 1, kind, on_gpu=False) == answer


def test_calls_by_another_table_are_refused():
    i386, x32 = 0x40000003, 0x40000000
    assert decide(X86_64, 0, on_gpu=True, architecture=i386) == EPERM
    assert decide(X86_64, x32 | 101, on_gpu=True) == EPERM
