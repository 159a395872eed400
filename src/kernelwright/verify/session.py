"""A task's candidates in one guest: loading, weights, calls that start from the same state."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from kernelwright.core.verdict import Stage
from kernelwright.sandbox.guest import Guest, Ran, Timed
from kernelwright.timing.stages import stage
from kernelwright.verify.rejection import faults
from kernelwright.verify.task import ModuleTask, Task


@dataclass(frozen=True, slots=True)
class Called:
    """One call and the buffers it left."""

    ran: Ran
    state: dict[str, torch.Tensor] = field(default_factory=dict)


@dataclass(slots=True)
class Session:
    """Calls candidates of `task` in `guest`; what they do wrong is raised as `Rejected`."""

    task: Task
    guest: Guest
    device: torch.device
    tasks: dict[str, Task] = field(default_factory=dict)
    """Candidate -> the task its answers belong to: with weights as the seed makes them, where
    they cannot be given by name."""
    _start: dict[str, dict[str, torch.Tensor]] = field(default_factory=dict)
    """Candidate -> buffers to set before each call, where weights cannot be given by name."""

    @stage("load")
    def load(self, name: str, source: str, kernels: Path | None = None) -> None:
        """Load a candidate; from `kernels`, what was compiled of it before."""
        with faults(Stage.COMPILE):
            if not isinstance(self.task, ModuleTask):
                self.guest.load(source, name, kernels=kernels)
                self.tasks[name] = self.task
                return
            self.guest.load(source, name, self.task.init(), kernels)
            entries = self.guest.state(name, values=True)
        wanted = self.task.state(self.device)
        shapes = {n: tuple(e.meta.shape) for n, e in entries.items()}
        if all(shapes.get(n) == tuple(tensor.shape) for n, tensor in wanted.items()):
            self.tasks[name] = self.task
            return
        self.tasks[name] = self.task.as_constructed()
        buffers = {n: e.value for n, e in entries.items() if e.value is not None}
        self._start[name] = buffers

    def matches_by_name(self, name: str) -> bool:
        """The candidate's parameters and buffers are the reference's, by state_dict name."""
        return self.tasks[name] is self.task

    @stage("run")
    def call(
        self,
        name: str,
        task: Task,
        inputs: Sequence[Any],
        seed: int,
        poison: float,
        skip_kernels: Sequence[str] = (),
    ) -> Called:
        """One watched call, from the state at the start of `task`: a candidate's own or, where
        weights can be given by name, one with other weights."""
        with faults():
            start = self._restart(name, task)
            ran = self.guest.run(name, inputs, seed, poison, skip_kernels)
            if not start:
                return Called(ran)
            entries = self.guest.state(name, values=True)
        return Called(ran, {n: e.value for n, e in entries.items() if e.value is not None})

    def restart(self, name: str) -> None:
        """Parameters and buffers as at the start, before calls are timed."""
        with faults():
            self._restart(name, self.tasks[name])

    def prepare(
        self,
        name: str,
        inputs: Sequence[Any],
        seed: int,
        poison: float,
        *,
        is_replay: bool = False,
    ) -> None:
        """Give the next timed call its inputs, and buffers as at the start."""
        with faults():
            if buffers := self._buffers(name):
                self.guest.load_state(name, buffers)
            self.guest.prepare(name, inputs, seed, poison, is_replay=is_replay)

    def time(self, *, is_idle: bool = False, repeats: int = 1, pause_ms: float = 0.0) -> Timed:
        with faults():
            return self.guest.time(is_idle=is_idle, repeats=repeats, pause_ms=pause_ms)

    def timed(self) -> Ran:
        with faults():
            return self.guest.timed()

    def release(self) -> None:
        with faults():
            self.guest.release()

    def capture(self, name: str, inputs: Sequence[Any], seed: int) -> str:
        with faults():
            return self.guest.capture(name, inputs, seed)

    def _buffers(self, name: str) -> dict[str, torch.Tensor]:
        task = self.tasks[name]
        if isinstance(task, ModuleTask) and self.matches_by_name(name):
            return {n: b.detach() for n, b in task.module(self.device).named_buffers()}
        return self._start.get(name, {})

    def _restart(self, name: str, task: Task) -> dict[str, torch.Tensor]:
        """Set the state at the start, where there is any, and give it."""
        start = self._start.get(name, {})
        if isinstance(task, ModuleTask) and self.matches_by_name(name):
            start = task.state(self.device)
        if start:
            self.guest.load_state(name, start)
        return start


@dataclass(slots=True)
class Lasting:
    """The session at hand, for probes that may cost a guest: another one where it is lost."""

    session: Session
    open: Callable[[Task], Session]
    """A session of a task in a new guest, its candidate loaded."""

    def now(self) -> Session:
        if not self.session.guest.alive:
            self.session = self.open(self.session.task)
        return self.session
