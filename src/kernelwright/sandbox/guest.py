"""A guest, seen from the host: one forked, confined process that runs candidates.

The host sends requests and inputs; the guest answers with metadata and raw bytes, never pickle,
each answer echoing its request's nonce. What the candidate does wrong arrives as a `GuestFault`;
`InfraError` means our side failed. Nothing a guest says is a judgement.
An answer that the user's deadline cuts off raises `OutOfTime`, and the guest ends.
"""

import os
import secrets
import shutil
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import torch

from kernelwright.core.errors import InfraError
from kernelwright.sandbox import wire
from kernelwright.sandbox.contract import (
    Compiled,
    GuestFault,
    Limits,
    Loaded,
    ProcessState,
    Ran,
    StateEntry,
    Timed,
    call_facts,
)
from kernelwright.sandbox.forkloop import SCRATCH
from kernelwright.sandbox.guest_process import GuestProcess
from kernelwright.sandbox.tensors import TensorMeta, chunk, fresh_copy, from_payload
from kernelwright.timing.deadline import NEVER

if TYPE_CHECKING:
    from kernelwright.sandbox.cuda_memory import DeviceMemory

__all__ = [
    "Compiled",
    "Guest",
    "GuestFault",
    "Limits",
    "Loaded",
    "ProcessState",
    "Ran",
    "StateEntry",
    "Timed",
]

_START_S = 60.0
"""To say hello. The candidate's limits do not hold yet: nothing of its runs."""
_USAGE = ("registers", "shared_bytes", "spills")


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
        self._channel, self._folder, self._limits = channel, folder, limits
        self._memory = memory
        self.deadline = NEVER
        """No request is waited for beyond it, whatever the limits allow."""
        self._num_files = 0
        self._sources: dict[str, Path] = {}
        self._caches: dict[str, str] = {}
        self.alive = True
        try:
            hello, _ = self._receive(time.monotonic() + _START_S)
        except (TimeoutError, wire.Closed, wire.Malformed):
            self._end()
            raise
        self.isolation = "+".join(map(str, hello.get("isolation", ())))
        """Guards in force, e.g. "netns+ipcns+landlock+rlimits"."""
        self.born = self._process_state(hello.get("born"))
        """The process before it ran anything of a candidate's."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _value: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the guest and everything it started; remove its folder."""
        try:
            if self.alive:
                self._end()
            if self._memory is not None:
                self._memory.close()
        finally:
            self._channel.close()
            shutil.rmtree(self._folder, ignore_errors=True)

    # -- requests

    def load(
        self,
        source: str,
        name: str = "candidate",
        init: Mapping[str, Any] | None = None,
        kernels: Path | None = None,
    ) -> Loaded:
        """Import a candidate; construct its `ModelNew` where `init` is given.

        Args:
            init: None for a `fused_operator`. Otherwise a mapping with `arguments`, the text of a
                literal `([args], {kwargs})`, or `reference`, source whose `get_init_inputs` is
                called; `seed` of the construction (0); `train` (True).
            kernels: what `take_kernels` gave for the same source (guests with a GPU).
        """
        self._caches[name] = f"cache_{secrets.token_hex(8)}"
        header, _ = self._request(
            "load",
            name=name,
            file=self._write(source, name),
            init=None if init is None else dict(init),
            cache=self._caches[name],
            kernels=None if kernels is None else str(kernels),
        )
        try:
            return Loaded(name, str(header["entry"]), tuple(map(str, header["kernels"])))
        except (KeyError, TypeError) as error:
            raise self._malformed() from error

    def _write(self, source: str, name: str) -> str:
        """Put a candidate's file where the guest reads it and may not write; its name."""
        self._num_files += 1
        file = f"{name if name.isidentifier() else 'candidate'}_{self._num_files}.py"
        self._sources[name] = self._folder / file
        try:
            # "x" follows no link, should a guest without Landlock have left one
            with open(self._folder / file, "x", encoding="utf-8") as written:
                written.write(source)
        except FileExistsError:
            raise self._malformed(f"the guest made a file named {file}") from None
        return file

    def state(self, name: str, *, values: bool = False) -> dict[str, StateEntry]:
        """Parameters and buffers of a loaded `ModelNew` by state_dict name.

        Args:
            values: bring the buffers' values too, as they are now.
        """
        header, _ = self._request("state", name=name)
        try:
            entries = [
                (str(e["name"]), str(e["kind"]), TensorMeta.from_json(e)) for e in header["entries"]
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise self._malformed() from error
        buffers = [meta for _, kind, meta in entries if kind == "buffer"]
        brought = iter(self._fetch(buffers)[0] if values else [None] * len(buffers))
        return {
            name: StateEntry(kind, meta, next(brought) if kind == "buffer" else None)
            for name, kind, meta in entries
        }

    def load_state(self, name: str, tensors: Mapping[str, torch.Tensor]) -> None:
        """Copy values into the parameters and buffers of these names; names or shapes the
        candidate does not have are left out (compare with `state`)."""
        self._put(list(tensors.values()))
        self._request("load_state", name=name, names=list(tensors))

    def run(
        self,
        name: str,
        inputs: Sequence[Any],
        seed: int,
        poison: float = float("nan"),
        skip_kernels: Sequence[str] = (),
    ) -> Ran:
        """Call a loaded candidate once under watch.

        Args:
            inputs: tensors (on the server's device), or plain numbers, bools, None.
            seed: of the generators that the call may draw from.
            poison: what memory fresh from the allocator holds.
            skip_kernels: names of kernels whose launches do nothing, to see what depends on them.
        """
        self._put(inputs)
        header, wall_ms = self._request(
            "run", name=name, seed=seed, poison=repr(poison), skip_kernels=list(skip_kernels)
        )
        return self._ran(header, wall_ms)

    def run_many(self, name: str, calls: Sequence[tuple[Sequence[Any], int, float]]) -> list[Ran]:
        """Call a loaded candidate in a row under watch, as `run` does, in one request: beside many
        other guests on a GPU, waiting for each call would take most of the time.

        Args:
            calls: (inputs, seed, poison) of each.
        """
        self._put([value for inputs, _, _ in calls for value in inputs])
        described = [
            {"num_inputs": len(inputs), "seed": seed, "poison": repr(poison)}
            for inputs, seed, poison in calls
        ]
        header, wall_ms = self._request("run_many", name=name, calls=described)
        answers = header.get("calls")
        if not isinstance(answers, list) or len(answers) != len(calls):
            raise self._malformed()
        return self._all_ran(answers, wall_ms)

    def prepare(
        self,
        name: str,
        inputs: Sequence[Any],
        seed: int,
        poison: float = float("nan"),
        *,
        is_replay: bool = False,
    ) -> None:
        """Give the next timed call its inputs (CUDA), at new addresses.

        Args:
            is_replay: of the graph that `capture` made; its inputs are overwritten.
        """
        self._require_gpu()
        self._put(inputs)
        self._request("prepare", name=name, seed=seed, poison=repr(poison), is_replay=is_replay)

    def time(self, *, is_idle: bool = False, repeats: int = 1, pause_ms: float = 0.0) -> Timed:
        """One cold call of what was prepared (again, if there was one already), or several.

        Args:
            is_idle: call nothing, by the same path: what a request itself takes.
            pause_ms: of the device, while each call is queued.
        """
        self._require_gpu()
        header, wall_ms = self._request("time", is_idle=is_idle, repeats=repeats, pause_ms=pause_ms)
        time_ms = header.get("time_ms")
        if type(time_ms) is not float or not 0.0 < time_ms < float("inf"):
            raise self._malformed()
        return Timed(time_ms=time_ms, wall_ms=wall_ms)

    def timed(self) -> Ran:
        """What the last timed call returned; to be asked once."""
        header, wall_ms = self._request("describe")
        return self._ran(header, wall_ms, is_timed=True)

    def release(self) -> None:
        """Let go of inputs, results and cached memory: the host and other guests need room."""
        self._request("release")

    def capture(self, name: str, inputs: Sequence[Any], seed: int) -> str:
        """Capture a call as a CUDA graph: "", or why the candidate's calls cannot be captured.
        A guest in which that failed should not be used again."""
        self._require_gpu()
        self._put(inputs)
        header, _ = self._request("capture", name=name, seed=seed)
        return str(header.get("refused") or "")

    def kernel_time_share(self, name: str, inputs: Sequence[Any]) -> float | None:
        """Share of GPU time in the candidate's own kernels, 0 to 1 (CUDA); None where the call
        waits for the device, so that it cannot be told."""
        self._require_gpu()
        self._put(inputs)
        header, _ = self._request("share", name=name)
        share = header.get("share")
        if share is not None and (type(share) is not float or not 0.0 <= share <= 1.0):
            raise self._malformed()
        return share

    def compile(
        self, inputs: Sequence[Any], name: str = "candidate", *, measures: bool = True
    ) -> Compiled:
        """Call a loaded candidate with its kernels compiled instead of launched (guests of the
        "compile" server).

        Args:
            measures: find out what each kernel uses, too (10 ms a launch).
        """
        header, _ = self._request(
            "compile",
            name=name,
            inputs=_described(inputs),
            measures=measures,
            own_code_s=self._limits.own_code_s,
        )
        try:
            usage = {
                str(kernel): {key: int(used[key]) for key in _USAGE}
                for kernel, used in header["kernels"].items()
            }
            signatures = tuple(header["signatures"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._malformed() from error
        return Compiled(usage, signatures)

    def take_kernels(self, name: str) -> Path | None:
        """What was compiled of a candidate, moved to where no guest can change it; None where
        nothing was. Whoever takes it removes it."""
        made = self._folder / SCRATCH / self._caches[name]
        taken = self._folder.parent / made.name.replace("cache", "kernels")
        try:
            os.rename(made, taken)
        except OSError:
            return None
        return taken

    def forget(self, name: str) -> None:
        """Drop a candidate with all that belongs to it."""
        self._request("forget", name=name)
        if name in self._sources:
            self._sources.pop(name).unlink(missing_ok=True)

    def attest(self) -> ProcessState:
        """What the process is like now, objects included; to compare with `born`."""
        header, _ = self._request("attest")
        return self._process_state(header.get("process"))

    # -- protocol

    def _process_state(self, values: Any) -> ProcessState:
        try:
            return ProcessState.from_json(values)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._malformed() from error

    def _require_gpu(self) -> None:
        if self._memory is None:
            raise InfraError("speed is measured on CUDA only, never in the interpreter")

    def _ran(self, header: wire.Header, wall_ms: float, *, is_timed: bool = False) -> Ran:
        return self._all_ran([header], wall_ms, is_timed=is_timed)[0]

    def _all_ran(
        self, answers: Sequence[Any], wall_ms: float, *, is_timed: bool = False
    ) -> list[Ran]:
        """Read what the guest says of each call, and bring their outputs over together."""
        try:
            metas = [[TensorMeta.from_json(m) for m in answer["outputs"]] for answer in answers]
            facts = [call_facts(answer) for answer in answers]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._malformed() from error
        outputs, has_changed = self._fetch([m for each in metas for m in each], is_timed=is_timed)
        rest = iter(outputs)
        return [
            Ran(
                outputs=tuple(next(rest) for _ in each),
                **fact,
                wall_ms=wall_ms,
                has_changed=has_changed,
            )
            for each, fact in zip(metas, facts, strict=True)
        ]

    def _put(self, inputs: Sequence[Any]) -> None:
        tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
        described = _described(inputs)
        if self._memory is None:
            self._request("put", [chunk(tensor) for tensor in tensors], inputs=described)
            return
        with self._memory.lend(tensors) as shared:
            self._request("put", inputs=described, shared=shared.handle, begins=shared.begins)

    def _fetch(
        self, metas: Sequence[TensorMeta], *, is_timed: bool = False
    ) -> tuple[list[torch.Tensor], bool]:
        """Bring the guest's last outputs over; the host owns what is returned. And whether they
        were written to after a timed call had ended."""
        total = sum(meta.span_bytes for meta in metas)
        if total > self._limits.memory_bytes:
            self._end()
            raise GuestFault("out_of_memory", f"outputs of {total} bytes are above the limit")
        if self._memory is None:
            try:
                return from_payload(metas, self._request_payload("fetch", total)), False
            except (ValueError, RuntimeError) as error:
                raise self._malformed() from error
        with self._memory.land(metas) as (shared, landings):
            header, _ = self._request(
                "fetch", shared=shared.handle, begins=shared.begins, is_timed=is_timed
            )
            copies = [fresh_copy(landing) for landing in landings]
        if is_timed:
            self._memory.settle()  # nothing of ours runs beside the next timed call
        return copies, bool(header.get("has_changed"))

    def _request(
        self, op: str, chunks: Sequence[memoryview] = (), **values: Any
    ) -> tuple[wire.Header, float]:
        header, _, wall_ms = self._exchange({"op": op, **values}, chunks, 0)
        return header, wall_ms

    def _request_payload(self, op: str, num_bytes: int) -> bytearray:
        return self._exchange({"op": op}, (), num_bytes)[1]

    def _exchange(
        self, request: wire.Header, chunks: Sequence[memoryview], max_payload_bytes: int
    ) -> tuple[wire.Header, bytearray, float]:
        if not self.alive:
            raise InfraError("this guest has ended; start another")
        nonce = secrets.token_hex(8)
        begin_s = time.monotonic()
        deadline_s = begin_s + min(self._limits.wall_s, self.deadline.left_s())
        try:
            wire.send(self._channel, {**request, "nonce": nonce}, chunks, deadline_s=deadline_s)
            header, payload = self._receive(deadline_s, max_payload_bytes)
        except TimeoutError:
            self._end()
            self.deadline.check()
            message = f"no answer to {request['op']!r} within {self._limits.wall_s:g} s"
            raise GuestFault("timeout", message) from None
        except wire.Closed:
            raise self._death() from None
        except wire.Malformed as error:
            raise self._malformed(str(error)) from error
        if header.get("nonce") != nonce:
            raise self._malformed("an answer nobody asked for")
        if "fault" in header:
            self._raise_fault(header, request["op"])
        return header, payload, (time.monotonic() - begin_s) * 1e3

    def _receive(
        self, deadline_s: float, max_payload_bytes: int = 0
    ) -> tuple[wire.Header, bytearray]:
        return wire.receive(
            self._channel, max_payload_bytes=max_payload_bytes, deadline_s=deadline_s
        )

    def _raise_fault(self, header: wire.Header, op: str) -> None:
        """The candidate raised; a lost CUDA context ends the guest. Taking inputs runs nothing of
        the candidate's, so a failure there is ours, unless it changed what is used for that."""
        if header.get("context_lost"):
            self._end()
        try:
            fault = header["fault"]
            line = fault["line"]
            message = f"{fault['type']}: {fault['message']}"
            if op == "put" and self.alive and self._is_changed():
                raise GuestFault("tampered", f"the guest cannot take its inputs: {message}")
            if op == "put":
                raise InfraError(f"the guest cannot take its inputs: {message}")
            raise GuestFault(
                str(fault["kind"]), message, line=line if isinstance(line, int) else None
            )
        except (KeyError, TypeError) as error:
            raise self._malformed() from error

    def _is_changed(self) -> bool:
        """Objects or settings are not what they were at birth."""
        now = self.attest()
        return now.objects != self.born.objects or now.settings != self.born.settings

    def _malformed(self, why: str = "an answer that does not follow the protocol") -> GuestFault:
        if self.alive:
            self._end()
        return GuestFault("malformed", why)

    def _death(self) -> GuestFault:
        """Why the channel closed."""
        self.alive = False
        return self.process.death()

    def _end(self) -> None:
        self.alive = False
        self.process.end()


def _described(inputs: Sequence[Any]) -> list[dict[str, Any]]:
    return [
        TensorMeta.of(value).to_json() if isinstance(value, torch.Tensor) else {"literal": value}
        for value in inputs
    ]
