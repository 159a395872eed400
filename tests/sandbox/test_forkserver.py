"""A fork server that ends, or cannot fork, is our failure: retried, and never a verdict."""

import os
import signal
import time
from pathlib import Path

import pytest
import torch

from kernelwright.core.errors import GuestLost, InfraError
from kernelwright.sandbox.guest import forkloop
from kernelwright.sandbox.host import forkserver
from kernelwright.sandbox.host.forkserver import ForkServer
from kernelwright.sandbox.host.guest import Guest
from kernelwright.sandbox.shared.contract import GuestCall

SUM = "def fused_operator(x):\n    return [x.sum()]\n"


@pytest.fixture
def server():
    made = ForkServer("cpu")
    yield made
    made.close()


def works(guest: Guest) -> bool:
    guest.load(SUM)
    (total,) = guest.run("candidate", GuestCall([torch.ones(3)], seed=0)).outputs
    return total.item() == 3


def kill(server: ForkServer) -> None:
    """Unknown to the server's object, as any death is."""
    assert server._process is not None
    os.kill(server._process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, server._process.pid, os.WEXITED | os.WNOWAIT)


@pytest.mark.slow
def test_a_server_killed_between_guests_is_replaced(server: ForkServer):
    server.guest().close()
    kill(server)
    with server.guest() as guest:
        assert works(guest)


@pytest.mark.slow
def test_a_server_that_dies_when_asked_is_lost_then_replaced(
    server: ForkServer, monkeypatch: pytest.MonkeyPatch
):
    server.guest().close()
    kill(server)
    monkeypatch.setattr(server._process, "poll", lambda: None)  # not noticed in time
    with pytest.raises(GuestLost):
        server.guest()
    with server.guest() as guest:
        assert works(guest)


@pytest.mark.slow
def test_a_server_that_takes_too_long_to_start_is_ended_and_another_started(
    server: ForkServer, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as short:
        short.setattr(forkserver, "_START_S", 0.01)
        with pytest.raises(InfraError, match="does not start"):
            server.guest()
    with server.guest() as guest:
        assert works(guest)


@pytest.mark.slow
def test_a_guest_whose_server_died_is_lost_not_judged(server: ForkServer):
    guest = server.guest()
    pid = guest.process.pid
    kill(server)
    with pytest.raises(GuestLost):
        works(guest)
    with server.guest() as other:
        assert works(other)
    guest.close()
    end_s = time.monotonic() + 60
    while os.path.exists(f"/proc/{pid}") and time.monotonic() < end_s:
        time.sleep(0.01)
    assert not os.path.exists(f"/proc/{pid}")  # guests die with their server


@pytest.mark.slow
def test_a_server_killed_twice_leaves_no_confusion_of_guests(server: ForkServer):
    """Process ids of an earlier server mean nothing to a later one."""
    old = server.guest()
    kill(server)
    with pytest.raises(GuestLost):
        works(old)
    with server.guest() as new:
        old.close()
        assert works(new)


@pytest.mark.slow
def test_a_server_without_its_keeper_of_namespaces_is_replaced(server: ForkServer):
    with server.guest() as guest:
        if "netns" not in guest.isolation:
            pytest.skip("this kernel grants no namespaces")
    assert server._process is not None
    pid = server._process.pid
    (keeper,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    os.kill(int(keeper), signal.SIGKILL)
    with pytest.raises(GuestLost):
        server.guest()
    with server.guest() as guest:
        assert works(guest)
        assert "netns" in guest.isolation


@pytest.mark.slow
def test_a_machine_without_room_for_a_guest_is_asked_again(
    server: ForkServer, monkeypatch: pytest.MonkeyPatch
):
    server.guest().close()
    ask, answers = server._ask, [{"error": "no room"}, {"error": "no room"}]
    monkeypatch.setattr("kernelwright.sandbox.host.forkserver._FORK_PAUSES_S", (0.0, 0.0))
    monkeypatch.setattr(server, "_ask", lambda *a: answers.pop() if answers else ask(*a))
    with server.guest() as guest:
        assert works(guest)
    answers[:] = 3 * [{"error": "no room"}]
    with pytest.raises(GuestLost, match="no room"):
        server.guest()


IMPORTED = """
import sys

import torch


def fused_operator(x):
    return [x + ("torch._inductor.compile_fx" in sys.modules)]
"""


def has_compiler(server: ForkServer) -> bool:
    with server.guest() as guest:
        guest.load(IMPORTED)
        (answer,) = guest.run("candidate", GuestCall([torch.zeros(1)], seed=0)).outputs
        return bool(answer.item())


@pytest.mark.slow
def test_guests_have_the_compiler_once_the_server_imported_it(server: ForkServer):
    server.start()
    assert not has_compiler(server)
    server.start(compiles=True)
    assert has_compiler(server)
    kill(server)
    assert not has_compiler(server), "another server imports when it is asked"
    server.start(compiles=True)
    assert has_compiler(server)


@pytest.mark.slow
def test_a_server_that_cannot_import_the_compiler_is_replaced(
    server: ForkServer, monkeypatch: pytest.MonkeyPatch
):
    """The import used the GPU's driver, which no fork could use after that."""
    server.start()
    first = server._process
    monkeypatch.setattr(server, "_ask", lambda _: {"usable": False})
    server.start(compiles=True)
    monkeypatch.undo()
    assert server._process is not first
    assert not has_compiler(server)
    server.start(compiles=True)
    assert not has_compiler(server), "it is not tried again"


def test_a_fork_tells_whether_it_can_use_cuda(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: False)
    assert forkloop._forks_can_use_cuda()
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: True)
    assert not forkloop._forks_can_use_cuda()
