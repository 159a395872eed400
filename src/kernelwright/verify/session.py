"""A task's candidates in one guest: loading, weights, calls that start from the same state."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from kernelwright.core.candidate import uses_compile
from kernelwright.core.verdict import Code, Stage
from kernelwright.sandbox.host.guest import Guest
from kernelwright.sandbox.shared.contract import GuestCall, GuestFault, Ran, Timed
from kernelwright.sandbox.shared.manner import Manner
from kernelwright.timing.stages import stage
from kernelwright.verify.rejection import Rejected, faults
from kernelwright.verify.tasks.module_task import ModuleTask
from kernelwright.verify.tasks.task import META, Task
from kernelwright.verify.tasks.weights_match import matched

State = dict[str, torch.Tensor]

MAX_STATE_COPIES, MAX_TABLE_BYTES = 8, 256 << 20
"""A candidate's parameters and buffers may take so many times the reference's bytes, and so many
more."""


@dataclass(frozen=True, slots=True)
class Called:
    """One call, and the state of its instance before and after."""

    ran: Ran
    before: State = field(default_factory=dict)
    """Parameters and buffers before the call, by the reference's names."""
    state: State = field(default_factory=dict)
    """The same after the call."""
    attributes: dict[str, Any] = field(default_factory=dict)
    """Plain attributes after the call, by path."""
    is_compiled: bool = False
    """Inductor launched the kernels: the guest does not see these launches."""


@dataclass(slots=True)
class _Loaded:
    """A session's state of one candidate."""

    names: dict[str, str] = field(default_factory=dict)
    """The reference's parameters and buffers -> the candidate's."""
    instance: int = 0
    """The instance that judged calls use."""
    arguments: object = None
    """The arguments of the constructor of that instance."""
    attributes: dict[str, Any] = field(default_factory=dict)
    """The plain attributes of that instance after its construction."""
    captured: int = 0
    """The instance whose call was captured as a graph."""
    compiles: bool = False
    """The source wraps a function in `torch.compile`."""
    is_compiled: bool | None = None
    """How the instance at hand is called: compiled or not; None before the first call."""


@dataclass(slots=True)
class Session:
    """Calls candidates of `task` in `guest`; a fault of a candidate is raised as `Rejected`."""

    task: Task
    guest: Guest
    device: torch.device
    is_drop_in: bool = False
    """A candidate that refuses calls in grad or inference mode is rejected."""
    spent_s: float = 0.0
    """Seconds that the candidates' calls took, on the host's clock."""
    refuses_grad: bool = False
    """A candidate raises an exception in grad or inference mode, and none under no_grad."""
    _loaded: dict[str, _Loaded] = field(default_factory=dict)
    _has_hidden_state: bool = False
    """Calls change state of the reference that is outside of its parameters and buffers."""

    @stage("load")
    def load(self, name: str, source: str, kernels: Path | None = None) -> None:
        """Loads a candidate in the guest.

        Args:
            kernels: folder of kernels that were compiled from this candidate before.

        Raises:
            Rejected: it cannot be loaded, or the reference's weights have no place in it.
        """
        task = self.task
        with faults(Stage.COMPILE):
            if not isinstance(task, ModuleTask):
                self.guest.load(source, name, kernels=kernels)
                self._loaded[name] = _Loaded(compiles=uses_compile(source))
                return
            self.guest.load(source, name, task.init(), kernels)
            entries = self.guest.state(name, values=True, most_bytes=self._most_state_bytes())
            attributes = self.guest.attributes(name)
        if not self._loaded:  # a fact of the task, so the first candidate's load finds it for all
            self._has_hidden_state = task.has_hidden_state(self.device)
        names = matched(task.constructed(self.device), entries)
        self._loaded[name] = _Loaded(names, attributes=attributes, compiles=uses_compile(source))
        renamed = [mine for mine, theirs in sorted(names.items()) if mine != theirs]
        if self.is_drop_in and renamed:
            message = f"ModelNew names {renamed[0]} {names[renamed[0]]}: no checkpoint would load"
            raise Rejected(Stage.COMPARE, Code.STATE_DIFFERS, f"{message}; keep the names")
        # A parameter that no output depends on may be missing: nobody can see the difference.
        missing = sorted(task.saved(self.device) - names.keys())
        if missing and (needed := task.needed(missing, self.device)):
            shape = list(task.state(self.device)[needed].shape)
            message = f"ModelNew has no counterpart of {needed} {shape}: weights cannot be given"
            raise Rejected(
                Stage.COMPARE,
                Code.STATE_DIFFERS,
                f"{message}; keep the reference's names, or its order and shapes",
            )

    def _most_state_bytes(self) -> int:
        """Returns the most bytes that a candidate's parameters and buffers may take: copies of the
        reference's, packed otherwise, and small tables."""
        if not isinstance(self.task, ModuleTask):
            return 0
        own = sum(tensor.nbytes for tensor in self.task.state(self.device).values())
        return MAX_STATE_COPIES * own + MAX_TABLE_BYTES

    def is_loaded(self, name: str) -> bool:
        return name in self._loaded

    @stage("run")
    def call(self, name: str, task: Task, call: GuestCall) -> Called:
        """Calls a candidate once, from the state at the start of `task`.

        Raises:
            Rejected: a fault of the candidate.
        """
        with faults():
            self._restart(name, task, is_compiled=call.manner.compiles)
            before = task.state(self.device) if isinstance(task, ModuleTask) else {}
            return self.call_on(name, self._loaded[name].instance, call, before)

    def call_on(
        self,
        name: str,
        instance: int,
        call: GuestCall,
        before: Mapping[str, torch.Tensor] | None = None,
    ) -> Called:
        """Calls an instance once, in the state that it has.

        Args:
            before: the instance's parameters and buffers, where they are known.

        Raises:
            Rejected: a fault of the candidate.
        """
        is_compiled = call.manner.compiles
        with faults():
            if before is None:  # earlier calls of the instance have changed its buffers
                before = self.state_of(name, instance)
            ran = self._run(name, instance, call)
            self.spent_s += ran.wall_ms / 1e3
            if not isinstance(self.task, ModuleTask):
                return Called(ran, is_compiled=is_compiled)
            outputs = self.guest.attributes(name, instance)
            state = self.state_of(name, instance)
            return Called(ran, dict(before), state, outputs, is_compiled=is_compiled)

    def compiled(self, name: str, inputs: Sequence[Any], manner: Manner) -> Manner | None:
        """Returns the manner of a second, compiled call of a candidate that uses `torch.compile`.
        None for other candidates and for watched calls, and at other sizes than the task's: each
        such call would compile anew, for minutes."""
        if not self._loaded[name].compiles or manner.is_watched or self.device.type != "cuda":
            return None
        if _signature(inputs) != _signature(self.task.example(META)):
            return None
        # Dynamo compiles anew for another number of threads, and for inference mode.
        return replace(manner, compiles=True, num_threads=1, is_inference=False)

    def _run(self, name: str, instance: int, call: GuestCall) -> Ran:
        """Makes the call, under no_grad where the candidate refuses grad or inference mode."""
        manner = replace(call.manner, has_grad=False, is_inference=False)
        without_grad = replace(call, manner=manner)
        if self.refuses_grad:
            call = without_grad
        try:
            return self.guest.run(name, call, instance=instance)
        except GuestFault as fault:
            if fault.kind != "runtime" or call.manner == manner or not self.guest.alive:
                raise
            # If the call fails under no_grad too, that fault is raised here instead.
            ran = self.guest.run(name, without_grad, instance=instance)
            if self.is_drop_in:
                raise
            self.refuses_grad = True
            return ran

    def state_of(self, name: str, instance: int) -> State:
        """Returns copies of an instance's parameters and buffers, by the reference's names."""
        names = self._loaded[name].names
        if not names:
            return {}
        most_bytes = self._most_state_bytes()
        entries = self.guest.state(name, instance, values=True, most_bytes=most_bytes)
        values = {
            mine: entries[theirs].value for mine, theirs in names.items() if theirs in entries
        }
        return {mine: value for mine, value in values.items() if value is not None}

    # -- instances

    def instance(self, name: str, task: Task) -> int:
        """Constructs a new instance with the weights of `task`, and returns its number. A function
        has the number 0."""
        if not isinstance(task, ModuleTask):
            return 0
        with faults():
            number = self.guest.construct(name, task.init())
            self.set_weights(name, number, task.state(self.device))
        return number

    def set_weights(
        self, name: str, instance: int, state: Mapping[str, torch.Tensor], how: str = "copy"
    ) -> None:
        """Gives an instance parameters and buffers.

        Args:
            state: values by the reference's names. Names without a counterpart are left out.
            how: the way a user changes weights: "copy", "load_state_dict", "assign" or "data".
        """
        names = self._loaded[name].names
        values = {names[mine]: value for mine, value in state.items() if mine in names}
        if values:
            with faults():
                self.guest.load_state(name, values, instance, how)

    def _restart(self, name: str, task: Task, *, is_compiled: bool) -> None:
        """Brings the candidate into the state at the start of `task`. The instance at hand is kept,
        unless it has other arguments, or calls change its attributes. Compiled calls have an
        instance of their own: a CUDA graph of uncompiled calls would replay those."""
        if not isinstance(task, ModuleTask):
            return
        loaded = self._loaded[name]
        is_other = loaded.arguments != task.arguments or self._has_hidden_state
        is_other |= loaded.compiles and loaded.is_compiled not in (None, is_compiled)
        loaded.is_compiled = is_compiled
        # The instance stays where it can: weights that it has packed once are then found stale.
        if is_other or self.guest.attributes(name, loaded.instance) != loaded.attributes:
            self._construct(name, task)
        self.set_weights(name, loaded.instance, task.state(self.device))

    def _construct(self, name: str, task: ModuleTask) -> None:
        """Replaces the instance at hand by a new one. A captured graph still needs its instance."""
        loaded = self._loaded[name]
        old, loaded.instance = loaded.instance, self.guest.construct(name, task.init())
        loaded.arguments = task.arguments
        loaded.attributes = self.guest.attributes(name, loaded.instance)
        # Requests without a number, such as that for the share of GPU time, call instance 0.
        if old not in (0, loaded.captured):
            self.guest.drop(name, old)

    # -- timed calls

    def restart(self, name: str) -> None:
        """Sets parameters, buffers and attributes back to the start, before calls are timed. Timed
        calls are compiled where the candidate uses `torch.compile`."""
        with faults():
            self._restart(name, self.task, is_compiled=True)

    def prepare(self, name: str, call: GuestCall, *, is_replay: bool = False) -> None:
        """Gives the next timed call its inputs, and buffers as at the start. If the reference has
        hidden state, attributes start anew too. All else that a candidate keeps from its first call
        stays."""
        task, loaded = self.task, self._loaded[name]
        with faults():
            if isinstance(task, ModuleTask):
                if self._has_hidden_state and not is_replay:
                    self._restart(name, task, is_compiled=True)
                buffers = dict(task.module(self.device).named_buffers())
                instance = loaded.captured if is_replay else loaded.instance
                self.set_weights(name, instance, {n: b.detach() for n, b in buffers.items()})
            self.guest.prepare(name, call, is_replay=is_replay, instance=loaded.instance)

    def time(self, *, is_idle: bool = False, repeats: int = 1, pause_ms: float = 0.0) -> Timed:
        with faults():
            return self.guest.time(is_idle=is_idle, repeats=repeats, pause_ms=pause_ms)

    def timed(self, like: Sequence[torch.Tensor]) -> Ran:
        with faults():
            return self.guest.timed(like)

    def release(self) -> None:
        with faults():
            self.guest.release()

    def capture(self, name: str, inputs: Sequence[Any], seed: int) -> str:
        loaded = self._loaded[name]
        loaded.captured = loaded.instance
        with faults():
            return self.guest.capture(name, inputs, seed, loaded.instance)


def _signature(inputs: Sequence[Any]) -> list[Any]:
    """Returns shapes and dtypes of tensors, and other values as text: as text, NaN equals
    itself."""
    return [
        (value.shape, value.dtype) if isinstance(value, torch.Tensor) else repr(value)
        for value in inputs
    ]


@dataclass(slots=True)
class Lasting:
    """Holds a session for calls that may cost a guest. `now` opens another session if the guest is
    lost."""

    session: Session
    open: Callable[[Task], Session]
    """A session of a task in a new guest, its candidate loaded."""

    def now(self) -> Session:
        """Returns a session whose guest is alive. Time that the candidate has spent is carried
        over."""
        if not self.session.guest.alive:
            spent_s = self.session.spent_s
            self.session = self.open(self.session.task)
            self.session.spent_s = spent_s
        return self.session
