"""The observer below Python sees what a lifted or blinded dispatch mode does not."""

import threading

import torch
from torch.utils._python_dispatch import _disable_current_modes

from kernelwright.sandbox.guest.crossings import Crossings
from kernelwright.sandbox.guest.watch import CallWatch, Launches
from kernelwright.sandbox.guest.witness import (
    STARTED,
    STOPPED,
    Witness,
    count_thread_starts,
    own_work,
)
from kernelwright.verify.dispatch import computing

X = torch.randn(8)


def test_an_operator_behind_a_lifted_mode_is_seen():
    crossings = Crossings([X], traces_memory=False)
    with Witness() as witness, CallWatch(0.0, crossings) as watch, _disable_current_modes():
        torch.relu(X)
    assert "aten.relu.default" not in watch.operators
    assert "aten::relu" in witness.seen()
    assert "aten::relu" in computing(witness.seen())


def test_memory_and_views_are_no_computation():
    with Witness() as witness:
        torch.empty_like(X).fill_(1.0).view(2, 4)[:, ::2].t().contiguous()
        torch.zeros(3).reshape(3, 1).expand(3, 2).clone().detach()
        float(torch.zeros(()))
    assert computing(witness.seen()) == []
    assert STOPPED not in witness.seen()


def test_an_observer_that_was_stopped_is_noticed():
    with Witness() as witness:
        torch._C._autograd._disable_profiler_legacy()
        torch.relu(X)
    assert computing(witness.seen()) == [STOPPED]


def test_work_of_our_own_is_not_witnessed():
    with Witness() as witness:
        with own_work():
            torch.relu(X)
        torch.empty(3)
    assert "aten::relu" not in witness.seen()
    assert "aten::empty" in witness.seen()


def test_a_thread_that_has_ended_is_noticed():
    count_thread_starts()
    with Witness() as witness:
        worker = threading.Thread(target=torch.relu, args=(X,))
        worker.start()
        worker.join()
    assert computing(witness.seen()) == [STARTED]
    with Witness() as witness:
        torch.empty(3)
    assert STARTED not in witness.seen()


class Graph:
    """Stands in for a CUDA graph: what is captured runs at once, and a replay runs nothing."""

    def capture_begin(self):
        pass

    def capture_end(self):
        pass

    def replay(self):
        pass


def test_what_a_graph_captured_out_of_sight_counts_when_it_is_replayed():
    class Wrapped(Graph):
        pass

    launches, graph = Launches(), Wrapped()
    launches._wrap_graphs(Wrapped)
    graph.capture_begin()
    torch.relu(X)
    graph.capture_end()
    launches.reset()
    assert computing(launches.operators) == []
    graph.replay()
    assert "aten::relu" in computing(launches.operators)
