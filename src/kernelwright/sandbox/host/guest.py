"""A guest, seen from the host: one forked, confined process that runs candidates.

The host sends requests and inputs. The guest answers with metadata and raw bytes, never pickle, and
each answer echoes its request's nonce. A fault of the candidate arrives as a `GuestFault`;
`InfraError` means that our side failed. Nothing a guest says is a judgement. An answer that the
user's deadline cuts off raises `OutOfTime`, and the guest ends.
"""

import os
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import torch

from kernelwright.core.errors import GuestLost, InfraError
from kernelwright.core.text import printable
from kernelwright.sandbox.host import reading
from kernelwright.sandbox.host.exchange import Exchange, GuestRaised
from kernelwright.sandbox.host.guest_process import GuestProcess
from kernelwright.sandbox.shared import candidate_files, removal
from kernelwright.sandbox.shared.contract import (
    Compiled,
    GuestCall,
    GuestFault,
    Limits,
    Loaded,
    ProcessState,
    Ran,
    StateEntry,
    Timed,
)
from kernelwright.sandbox.shared.starting import SCRATCH
from kernelwright.sandbox.shared.tensors import (
    TensorMeta,
    chunk,
    described,
    fresh_copy,
    from_payload,
)
from kernelwright.timing.deadline import Deadline

if TYPE_CHECKING:
    from kernelwright.sandbox.shared.cuda_memory import DeviceMemory

Fact = TypeVar("Fact")


class Guest:
    """Made by `ForkServer.guest`; use as a context manager."""

    def __init__(
        self,
        channel: socket.socket,
        process: GuestProcess,
        folder: Path,
        limits: Limits,
        memory: "DeviceMemory | None",
    ) -> None:
        self.process = process
        self._exchange = Exchange(channel, process, limits.wall_s)
        self._folder, self._limits, self._memory = folder, limits, memory
        self._num_files = 0
        self._sources: dict[str, Path] = {}
        self._caches: dict[str, str] = {}
        hello = self._exchange.hello()
        self.isolation = "+".join(map(str, hello.get("isolation", ())))
        """Guards in force, e.g. "netns+ipcns+landlock+rlimits"."""
        self.born = self._process_state(hello.get("born"))
        """The process before it ran anything of a candidate's."""

    @property
    def alive(self) -> bool:
        return self._exchange.alive

    @property
    def deadline(self) -> Deadline:
        """No request is waited for beyond it, whatever the limits allow."""
        return self._exchange.deadline

    @deadline.setter
    def deadline(self, deadline: Deadline) -> None:
        self._exchange.deadline = deadline

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the guest and everything it started; removes its folder."""
        try:
            self._exchange.end()
            if self._memory is not None:
                self._memory.close()
        finally:
            self._exchange.close()
            removal.remove(self._folder)

    def load(
        self,
        source: str,
        name: str = "candidate",
        init: Mapping[str, Any] | None = None,
        kernels: Path | None = None,
    ) -> Loaded:
        """Imports a candidate; constructs its `ModelNew` where `init` is given.

        Args:
            init: None for a `fused_operator`. Otherwise a mapping with `arguments`, the text of a
                literal `([args], {kwargs})`, or `init_inputs`, source whose `get_init_inputs` is
                called; `seed` of the construction (0); `train` (True).
            kernels: the folder that `take_kernels` gave for the same source (guests with a GPU).
        """
        self._caches[name] = f"cache_{secrets.token_hex(8)}"
        return self._read(
            partial(reading.loaded, name),
            "load",
            name=name,
            file=self._write(source, name),
            init=None if init is None else dict(init),
            cache=self._caches[name],
            kernels=None if kernels is None else str(kernels),
        )

    def _read(self, read: Callable[[dict[str, Any]], Fact], op: str, **values: Any) -> Fact:
        """Makes a request, and reads its answer."""
        header, _ = self._exchange.request(op, **values)
        with self._exchange.reading():
            return read(header)

    def _write(self, source: str, name: str) -> str:
        """Writes a candidate's file where the guest may read and not write, and returns its
        name."""
        self._num_files += 1
        try:
            path = candidate_files.write(self._folder, self._num_files, source)
        except FileExistsError as error:
            raise self._exchange.malformed(f"the guest made {error.filename}") from None
        self._sources[name] = path
        return path.name

    def construct(self, name: str, init: Mapping[str, Any]) -> int:
        """Makes another instance of a loaded `ModelNew`; returns its number. `load` made number
        0."""
        return self._instance("construct", name, init=dict(init))

    def duplicate(self, name: str, instance: int) -> int:
        """Deep-copies an instance; returns the copy's number."""
        return self._instance("duplicate", name, instance=instance)

    def move(self, name: str, instance: int) -> None:
        """Gives an instance's parameters and buffers other memory, as `Module.to` does."""
        self._exchange.request("move", name=name, instance=instance)

    def train(self, name: str, instance: int, *, is_training: bool) -> None:
        """Puts an instance into train or eval mode."""
        self._exchange.request("train", name=name, instance=instance, is_training=is_training)

    def drop(self, name: str, instance: int) -> None:
        """Lets the guest free an instance."""
        self._exchange.request("drop", name=name, instance=instance)

    def attributes(self, name: str, instance: int = 0) -> dict[str, Any]:
        """Returns plain attributes of an instance and its parts by path: numbers and strings, and
        for any other value {"type": name of its type}."""
        return self._read(reading.attributes, "attributes", name=name, instance=instance)

    def _instance(self, op: str, name: str, **values: Any) -> int:
        return self._read(lambda header: reading.count(header["instance"]), op, name=name, **values)

    def state(
        self, name: str, instance: int = 0, *, values: bool = False, most_bytes: int | None = None
    ) -> dict[str, StateEntry]:
        """Returns parameters and buffers of a loaded `ModelNew` by state_dict name.

        Args:
            values: bring their values too, as they are now.
            most_bytes: limit of all values; by default the limit of a call's outputs.

        Raises:
            GuestFault: the values are larger ("out_of_memory").
        """
        entries = self._read(reading.entries, "state", name=name, instance=instance)
        metas = [meta for _, _, meta in entries]
        brought: list[torch.Tensor] | list[None] = [None] * len(metas)
        if values:
            self._check_size(metas, most_bytes)
            brought = self._fetch(metas)[0]
        return {
            name: StateEntry(kind, meta, value)
            for (name, kind, meta), value in zip(entries, brought, strict=True)
        }

    def load_state(
        self,
        name: str,
        tensors: Mapping[str, torch.Tensor],
        instance: int = 0,
        how: str = "copy",
    ) -> None:
        """Sets parameters and buffers of these names. Names or shapes that the candidate does not
        have are left out (compare with `state`).

        Args:
            how: "copy" (in place), "load_state_dict" (the module's own), "assign" (new objects),
                or "data" (new memory).
        """
        self._put(list(tensors.values()))
        self._exchange.request(
            "load_state", name=name, names=list(tensors), instance=instance, how=how
        )

    def run(self, name: str, call: GuestCall, *, instance: int = 0) -> Ran:
        """Calls a loaded candidate once.

        Args:
            instance: number of the `ModelNew` to call.
        """
        self._put(call.inputs)
        header, wall_ms = self._exchange.request(
            "run",
            name=name,
            seed=call.seed,
            poison=repr(call.poison),
            skip_kernels=list(call.skip_kernels),
            instance=instance,
            manner=call.manner.to_json(),
            is_held=call.is_held,
            wanted_inputs=list(call.wanted_inputs),
        )
        like = call.like
        if like is not None:
            like = [*like, *(call.inputs[position] for position in call.wanted_inputs)]
        ran = self._all_ran([header], wall_ms, [like])[0]
        num_outputs = len(ran.outputs) - len(call.wanted_inputs)
        if num_outputs < 0:
            raise self._exchange.malformed()
        return replace(
            ran, outputs=ran.outputs[:num_outputs], inputs_after=ran.outputs[num_outputs:]
        )

    def let_go(self) -> int:
        """Frees the outputs of calls that are held. Returns the number of calls whose outputs
        the candidate keeps."""
        return self._read(lambda header: reading.count(header["kept"]), "let_go")

    def run_many(self, name: str, calls: Sequence[GuestCall]) -> list[Ran]:
        """Calls a candidate several times in one request, each call as `run` does, but with all
        kernels and without inputs afterwards. With many guests on a GPU, a wait for each call would
        take most of the time."""
        self._put([value for call in calls for value in call.inputs])
        requests = [
            {
                "num_inputs": len(call.inputs),
                "seed": call.seed,
                "poison": repr(call.poison),
                "manner": call.manner.to_json(),
            }
            for call in calls
        ]
        header, wall_ms = self._exchange.request("run_many", name=name, calls=requests)
        return self._all_ran(header.get("calls"), wall_ms, [call.like for call in calls])

    def prepare(
        self,
        name: str,
        call: GuestCall,
        *,
        is_replay: bool = False,
        instance: int = 0,
    ) -> None:
        """Gives the next timed call its inputs (CUDA), at new addresses.

        Args:
            is_replay: prepare a replay of the graph that `capture` made; its inputs are
                overwritten.
        """
        self._require_gpu()
        self._put(call.inputs)
        self._exchange.request(
            "prepare",
            name=name,
            seed=call.seed,
            poison=repr(call.poison),
            is_replay=is_replay,
            manner=call.manner.to_json(),
            instance=instance,
        )

    def time(self, *, is_idle: bool = False, repeats: int = 1, pause_ms: float = 0.0) -> Timed:
        """Times one cold call of what was prepared (again, if it was timed already), or several.

        Args:
            is_idle: call nothing, by the same path: this time is the cost of a request itself.
            pause_ms: pause of the device, during which each call is queued.
        """
        self._require_gpu()
        header, wall_ms = self._exchange.request(
            "time", is_idle=is_idle, repeats=repeats, pause_ms=pause_ms
        )
        with self._exchange.reading():
            queued_ms = reading.queued_ms(header)
            return Timed(time_ms=reading.time_ms(header), wall_ms=wall_ms, queued_ms=queued_ms)

    def timed(self, like: Sequence[torch.Tensor]) -> Ran:
        """Returns the results of the last timed call. Ask for them once.

        Args:
            like: as of `GuestCall`.
        """
        header, wall_ms = self._exchange.request("describe")
        return self._all_ran([header], wall_ms, [like], is_timed=True)[0]

    def release(self) -> None:
        """Frees inputs, results and cached memory: the host and other guests need room."""
        self._exchange.request("release")

    def capture(self, name: str, inputs: Sequence[Any], seed: int, instance: int = 0) -> str:
        """Captures a call as a CUDA graph. Returns "", or why the candidate's calls cannot be
        captured. A guest in which that failed should not be used again."""
        self._require_gpu()
        self._put(inputs)
        header, _ = self._exchange.request("capture", name=name, seed=seed, instance=instance)
        return printable(str(header.get("refused") or ""), reading.MAX_STRUCTURE)

    def kernel_time_share(self, name: str, inputs: Sequence[Any]) -> float | None:
        """Returns the share of GPU time in the candidate's own kernels, 0 to 1 (CUDA). None where
        the call waits for the device, which hides the share."""
        self._require_gpu()
        self._put(inputs)
        return self._read(reading.share, "share", name=name)

    def compile(
        self, inputs: Sequence[Any], name: str = "candidate", *, measures: bool = True
    ) -> Compiled:
        """Calls a loaded candidate with its kernels compiled instead of launched (guests of the
        "compile" server).

        Args:
            measures: find out what each kernel uses, too (10 ms a launch).
        """
        return self._read(
            reading.compiled,
            "compile",
            name=name,
            inputs=described(inputs),
            measures=measures,
            own_code_s=self._limits.own_code_s,
        )

    def take_kernels(self, name: str) -> Path | None:
        """Moves a candidate's compiled kernels to where no guest can change them, and returns the
        folder; None where nothing was compiled. The caller removes the folder."""
        cache = self._folder / SCRATCH / self._caches[name]
        taken = self._folder.parent / cache.name.replace("cache", "kernels")
        try:
            os.rename(cache, taken)
        except OSError:
            return None
        return taken

    def forget(self, name: str) -> None:
        """Drops a candidate with all that belongs to it."""
        self._exchange.request("forget", name=name)
        if name in self._sources:
            self._sources.pop(name).unlink(missing_ok=True)

    def attest(self) -> ProcessState:
        """Returns the present state of the process, objects included, to compare with `born`."""
        header, _ = self._exchange.request("attest")
        return self._process_state(header.get("process"))

    def _process_state(self, values: Any) -> ProcessState:
        with self._exchange.reading():
            return reading.process_state(values)

    def _require_gpu(self) -> None:
        if self._memory is None:
            raise InfraError("speed is measured on CUDA only, never in the interpreter")

    def _all_ran(
        self,
        answers: Any,
        wall_ms: float,
        likes: Sequence[Sequence[torch.Tensor] | None],
        *,
        is_timed: bool = False,
    ) -> list[Ran]:
        """Reads the guest's description of each call, and brings all outputs over together."""
        with self._exchange.reading():
            metas = [reading.metas(answer["outputs"]) for answer in answers]
            facts = [reading.call_facts(answer) for answer in answers]
            outputs = [
                reading.unexpected(of_call, like)
                for of_call, like in zip(metas, likes, strict=True)
            ]
        every = [meta for of_call in metas for meta in of_call]
        wanted = [n for n, tensor in enumerate(chain(*outputs)) if tensor is None]
        self._check_size([every[n] for n in wanted])
        brought, has_changed = self._fetch(every, wanted, is_timed=is_timed)
        values = iter(brought)
        return [
            Ran(
                outputs=tuple(next(values) if tensor is None else tensor for tensor in row),
                **fact,
                wall_ms=wall_ms,
                has_changed=has_changed,
            )
            for row, fact in zip(outputs, facts, strict=True)
        ]

    def _put(self, inputs: Sequence[Any]) -> None:
        tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
        try:
            if self._memory is None:
                chunks = [chunk(tensor) for tensor in tensors]
                self._exchange.request("put", chunks, inputs=described(inputs))
                return
            with self._memory.lend(tensors) as shared:
                self._exchange.request(
                    "put", inputs=described(inputs), shared=shared.handle, begins=shared.begins
                )
        except GuestRaised as raised:
            message = f"the guest cannot take its inputs: {raised.message}"
            if raised.kind == "out_of_memory":  # others may have taken the memory
                self._exchange.end()
                raise GuestLost(message) from None
            raise self._exchange.malformed(message) from None

    def _check_size(self, metas: Sequence[TensorMeta], most_bytes: int | None = None) -> None:
        total = sum(meta.span_bytes for meta in metas)
        limit = self._limits.memory_bytes if most_bytes is None else most_bytes
        if total > limit:
            self._exchange.end()
            message = f"tensors of {total} bytes to bring over, {limit} are allowed"
            raise GuestFault("out_of_memory", message)

    def _fetch(
        self,
        metas: Sequence[TensorMeta],
        wanted: Sequence[int] | None = None,
        *,
        is_timed: bool = False,
    ) -> tuple[list[torch.Tensor], bool]:
        """Brings the guest's last outputs over; the host owns them. Also tells whether they were
        written to after a timed call had ended.

        Args:
            wanted: positions of the outputs to bring; None: all.
        """
        wanted = range(len(metas)) if wanted is None else wanted
        metas = [metas[position] for position in wanted]
        if self._memory is None:
            total = sum(meta.span_bytes for meta in metas)
            payload = self._exchange.request_payload("fetch", total, wanted=list(wanted))
            with self._exchange.reading():
                return from_payload(metas, payload), False
        with self._memory.land(metas) as (shared, landings):
            header, _ = self._exchange.request(
                "fetch",
                shared=shared.handle,
                begins=shared.begins,
                wanted=list(wanted),
                is_timed=is_timed,
            )
            copies = [fresh_copy(landing) for landing in landings]
        if is_timed:
            self._memory.settle()  # nothing of ours runs beside the next timed call
        return copies, bool(header.get("has_changed"))
