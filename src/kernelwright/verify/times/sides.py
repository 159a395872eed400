"""The two sides of a timed pair: the reference in this process, the candidate in its guest.

Each takes its inputs first, then one call, cold, is timed.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import torch

from kernelwright.core.errors import infra
from kernelwright.core.verdict import Precision
from kernelwright.sandbox.guest.timed import Replays
from kernelwright.sandbox.shared.contract import GuestCall, Ran
from kernelwright.sandbox.shared.manner import WATCHED
from kernelwright.sandbox.shared.tensors import TensorMeta, flat_span, fresh_copy
from kernelwright.timing.cuda_timer import REFERENCE, Pause, stopwatch
from kernelwright.verify.judging import Rules
from kernelwright.verify.session import Session
from kernelwright.verify.tasks.answer import tensors_of
from kernelwright.verify.tasks.cases import poison
from kernelwright.verify.tasks.task import Task
from kernelwright.verify.values.tf32 import tf32


class HostSide(Protocol):
    """The reference."""

    outputs: tuple[torch.Tensor, ...]
    """The results of the last timed call."""

    def prepare(self, inputs: list[Any], seed: int) -> None: ...

    def time(self) -> float: ...


class HostCalls:
    """The reference, called in this process."""

    def __init__(
        self,
        task: Task,
        rules: Rules,
        pause: Pause | None = None,
        call: Callable[..., object] | None = None,
        name: str = REFERENCE,
    ) -> None:
        """
        Args:
            pause: of the device while the call is queued, so that launches do not count; none if
                not given.
            call: another form of the reference; PyTorch's calls, one by one, if not given.
            name: of this form, for the notes of the pause.
        """
        self._rules, self._pause, self._name = rules, pause or Pause(0.0), name
        self._inputs: list[Any] = []
        self._seed = 0
        self.outputs: tuple[torch.Tensor, ...] = ()
        with infra("timing the reference"):
            self._stopwatch = stopwatch()
            self._call = call or task.reference(rules.device)

    def prepare(self, inputs: list[Any], seed: int) -> None:
        self._inputs, self._seed, self.outputs = inputs, seed, ()

    def time(self) -> float:
        with infra("timing the reference"), torch.no_grad(), tf32_allowed(self._rules.precision):
            torch.manual_seed(self._seed)
            timed = self._stopwatch(lambda: self._call(*self._inputs), self._pause.ms)
            self._pause.note(self._name, timed.queued_ms)
            self.outputs = tensors_of(timed.result)
        return timed.time_ms


class HostReplays:
    """The reference as a CUDA graph.

    Raises:
        Exception: it cannot be captured.
    """

    def __init__(self, task: Task, rules: Rules, inputs: list[Any]) -> None:
        self._stopwatch = stopwatch()
        self.outputs: tuple[torch.Tensor, ...] = ()
        mine = [fresh_copy(v) if isinstance(v, torch.Tensor) else v for v in inputs]
        with torch.no_grad(), tf32_allowed(rules.precision):
            self._replays = Replays(task.reference(rules.device), mine, inputs)

    def prepare(self, inputs: list[Any], seed: int) -> None:  # noqa: ARG002 (in the graph)
        self.outputs = ()
        self._replays.refill(inputs)

    def time(self) -> float:
        with infra("timing the reference"):
            timed = self._stopwatch(self._replays)
            self.outputs = tensors_of(timed.result)
        return timed.time_ms


@dataclass(frozen=True, slots=True)
class Burst:
    """Several calls in one request, which adds up what each of them hides."""

    num: int
    time_ms: float
    """The time of all calls, by the guest's events."""
    beyond_ms: float
    """The time of the host's clock beyond the events, less the same for as many idle calls."""


@dataclass(slots=True)
class Believed:
    """The accepted facts about a guest's times, call by call, all in ms."""

    times_ms: list[float] = field(default_factory=list)
    """By the guest's events."""
    walls_ms: list[float] = field(default_factory=list)
    """The same calls on the host's clock, request and answer included."""
    idles_ms: list[float] = field(default_factory=list)
    """The time of the host's clock beyond the guest's events where nothing is called."""
    bursts: list[Burst] = field(default_factory=list)


class GuestCalls:
    """The candidate, called, or replayed as the graph the guest has captured."""

    def __init__(
        self, session: Session, name: str, *, is_replay: bool = False, pause: Pause | None = None
    ) -> None:
        """
        Args:
            pause: of the device while the call is queued, so that launches do not count; none if
                not given.
        """
        self._session, self._name, self._is_replay = session, name, is_replay
        self._pause = pause or Pause(0.0)
        self.believed = Believed()

    def prepare(self, inputs: list[Any], seed: int) -> None:
        manner = replace(WATCHED, has_offsets=bool(seed // 2 % 2))  # timed or not, a user's inputs
        filler = poison(seed, is_nan=bool(seed % 2))
        call = GuestCall(inputs, seed, filler, manner=manner)
        self._session.prepare(self._name, call, is_replay=self._is_replay)

    def time(self) -> float:
        time = partial(self._session.time, pause_ms=self._pause.ms)
        idle, timed = time(is_idle=True), time()
        self._pause.note(self._name, timed.queued_ms)
        self.believed.idles_ms.append(idle.wall_ms - idle.time_ms)
        self.believed.times_ms.append(timed.time_ms)
        self.believed.walls_ms.append(timed.wall_ms)
        return timed.time_ms

    def release(self) -> None:
        """Frees inputs and results in the guest."""
        self._session.release()

    def burst(self, num: int) -> None:
        """Times `num` more calls on the inputs at hand, to see whether the clocks agree."""
        time = partial(self._session.time, repeats=num, pause_ms=self._pause.ms)
        idle, timed = time(is_idle=True), time()
        beyond_ms = (timed.wall_ms - timed.time_ms) - (idle.wall_ms - idle.time_ms)
        self.believed.bursts.append(Burst(num, timed.time_ms, beyond_ms))

    def forget_times(self) -> None:
        """Forgets the times of calls that were made to warm up."""
        self.believed = Believed()

    def ran(self, like: Sequence[torch.Tensor]) -> Ran:
        """Returns the results of the last timed call.

        Args:
            like: as of `Guest.run`.
        """
        return self._session.timed(like)


@contextmanager
def tf32_allowed(precision: Precision) -> Iterator[None]:
    """Lets the reference use TF32 under the policy `tf32`; else it keeps its own settings."""
    with tf32(True if precision is Precision.TF32 else None):
        yield


def same_bits(some: Sequence[torch.Tensor], others: Sequence[torch.Tensor]) -> bool:
    """Whether the tensors are equal bit for bit, NaN included."""
    return len(some) == len(others) and all(
        TensorMeta.of(a) == TensorMeta.of(b)
        and not (a.is_meta or b.is_meta)
        and torch.equal(flat_span(a), flat_span(b))
        for a, b in zip(some, others, strict=True)
    )
