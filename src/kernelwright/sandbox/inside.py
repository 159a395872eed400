"""Guest side: answers the host's requests, one at a time, until the channel closes.

Everything here runs beside hostile code in one process and decides nothing: the host judges.
"""

import gc
import os
import secrets
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from kernelwright.sandbox import attest, candidate, kernel_cache, watch, wire
from kernelwright.sandbox.own_code import OwnCode
from kernelwright.sandbox.red_zones import RedZones
from kernelwright.sandbox.seeding import seed_generators
from kernelwright.sandbox.tensors import TensorMeta, chunk, flat_span, flatten, fresh_copy
from kernelwright.sandbox.tensors import from_payload as tensors_from_payload
from kernelwright.sandbox.timed import Timer, own_share
from kernelwright.sandbox.witness import Witness, count_thread_starts
from kernelwright.timing.waiting import sleep_while_waiting

Answer = tuple[dict[str, Any], list[memoryview]]


def serve(
    channel: socket.socket, role: str, folder: Path, held: list[str], *, patient: bool
) -> None:
    """Say hello with the guards that hold, then answer requests."""
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (lives as long as the guest)
    torch.set_num_threads(1)
    if role == "cuda":
        if patient:
            sleep_while_waiting()
        torch.cuda.init()  # type: ignore[no-untyped-call]
        torch.zeros(1, device="cuda")  # the context, whose threads and files are not a candidate's
        torch.cuda.synchronize()
    inside = Inside(role, folder)
    gc.freeze()
    wire.send(channel, {"isolation": held, "born": inside.attester.full()})
    while True:
        try:
            request, payload = wire.receive(channel, max_payload_bytes=1 << 40)
        except wire.Closed:
            return
        header, chunks = inside.answer(request, payload)
        wire.send(channel, {**header, "nonce": request["nonce"]}, chunks)


_KEPT_BYTES = 1 << 30
"""Of freed memory a guest may hold: to give it back and ask anew costs more than a small call."""


class Inside:
    """One guest's state: candidates by name, the inputs at hand, the last outputs."""

    def __init__(self, role: str, folder: Path) -> None:
        self.role = role
        self.folder = folder
        self.device = torch.device("cuda", 0) if role == "cuda" else torch.device("cpu")
        self.loaded: dict[str, candidate.Loaded] = {}
        self.kept: list[Any] = []  # inputs as the host sent them
        self.used: list[Any] = []  # what the last call was given; held so addresses change
        self.outputs: list[torch.Tensor] = []
        self.launches = watch.Launches()
        if role != "compile":
            self.launches.install()
            count_thread_starts()
        # made before any candidate can replace what it uses
        self._timer = Timer() if role == "cuda" else None
        self.attester = attest.Attester(on_gpu=role == "cuda")

    def answer(self, request: dict[str, Any], payload: bytearray) -> Answer:
        """Do what is asked; whatever the candidate raises comes back as data."""
        operations: dict[str, Callable[[dict[str, Any], bytearray], Answer]] = {
            "load": self.load,
            "state": self.state,
            "load_state": self.load_state,
            "put": self.put,
            "run": self.run,
            "run_many": self.run_many,
            "prepare": self.prepare,
            "capture": self.capture,
            "time": self.time,
            "describe": self.describe,
            "release": self.release,
            "share": self.kernel_time_share,
            "fetch": self.fetch,
            "compile": self.compile,
            "forget": self.forget,
            "attest": self.attest,
        }
        loaded = self.loaded.get(request.get("name", ""))
        path = self.folder / request["file"] if "file" in request else None
        path = loaded.path if loaded is not None else path
        try:
            return operations[request["op"]](request, payload)
        except BaseException as error:  # the guest's outermost frame
            default = "load" if request["op"] == "load" else "runtime"
            fault = candidate.fault(error, path, default)
            return {"fault": fault, "context_lost": self._context_lost()}, []

    def _context_lost(self) -> bool:
        """A CUDA context that saw a fault refuses everything from then on."""
        if self.role != "cuda":
            return False
        try:
            torch.cuda.synchronize()
        except RuntimeError:
            return True
        return False

    # -- candidates

    def load(self, request: dict[str, Any], _payload: bytearray) -> Answer:
        init = request["init"]
        if init is not None:
            init = {"device": str(self.device), **init}
        kernel_cache.renew(request["cache"], request["kernels"])
        with torch.no_grad():
            loaded = candidate.load(self.folder / request["file"], init)
        self.loaded[request["name"]] = loaded
        return {"entry": loaded.entry, "kernels": loaded.kernels}, []

    def forget(self, request: dict[str, Any], _payload: bytearray) -> Answer:
        """Drop a candidate and what was held for it."""
        loaded = self.loaded.pop(request["name"], None)
        self.kept, self.used, self.outputs = [], [], []
        if loaded is not None:
            candidate.unload(loaded)
        del loaded
        gc.collect()  # what was there before is frozen: this sees the candidate's objects alone
        gc.freeze()
        attest.reset_conveniences()
        return {}, []

    def attest(self, _request: dict[str, Any], _payload: bytearray) -> Answer:
        """Report on the process as a whole."""
        own = [candidate.module_name(each.path) for each in self.loaded.values()]
        return {"process": self.attester.full(own)}, []

    def _entries(self, name: str) -> list[tuple[str, str, torch.Tensor]]:
        """(state_dict name, kind, tensor) of a candidate's parameters and buffers."""
        model = self.loaded[name].model
        if model is None:
            return []
        parameters = model.named_parameters(remove_duplicate=False)
        buffers = model.named_buffers(remove_duplicate=False)
        return [(n, "parameter", t) for n, t in parameters] + [(n, "buffer", t) for n, t in buffers]

    def state(self, request: dict[str, Any], _payload: bytearray) -> Answer:
        entries = self._entries(request["name"])
        described = [
            {"name": name, "kind": kind, **TensorMeta.of(tensor).to_json()}
            for name, kind, tensor in entries
        ]
        self.outputs = [torch.Tensor.detach(t) for _, kind, t in entries if kind == "buffer"]
        return {"entries": described}, []

    def load_state(self, request: dict[str, Any], _payload: bytearray) -> Answer:
        """Copy the inputs at hand into the parameters and buffers of these names."""
        entries = {name: tensor for name, _, tensor in self._entries(request["name"])}
        with torch.no_grad():
            for name, value in zip(request["names"], self.kept, strict=True):
                if name in entries and entries[name].shape == value.shape:
                    entries[name].copy_(value)
        self.kept = []
        return {}, []

    # -- calls

    def put(self, request: dict[str, Any], payload: bytearray) -> Answer:
        """Take inputs: bytes on CPU, shared device memory on CUDA, plain values as literals."""
        items = request["inputs"]
        described = [item for item in items if "literal" not in item]
        metas = [TensorMeta.from_json(item) for item in described]
        self.kept = []  # make room first
        if self.role == "cuda":
            from kernelwright.sandbox import cuda_memory

            taken = cuda_memory.take(request["shared"], request["begins"], metas)
        else:
            taken = tensors_from_payload(metas, payload)
        tensors = iter(taken)
        self.kept = [item["literal"] if "literal" in item else next(tensors) for item in items]
        return {}, []

    def _fresh_inputs(self, kept: list[Any], zones: RedZones | None = None) -> list[Any]:
        """Copies of the inputs at addresses the previous call did not use."""
        padding = torch.empty(512 * (1 + secrets.randbelow(64)), device=self.device)
        copy = fresh_copy if zones is None else zones.copy
        fresh = [copy(v) if isinstance(v, torch.Tensor) else v for v in kept]
        del padding
        self.used = fresh
        return fresh

    def _synchronize(self) -> None:
        if self.role == "cuda":
            torch.cuda.synchronize()

    def run(self, request: dict[str, Any], _payload: bytearray) -> Answer:
        """One watched call."""
        self.outputs = []
        called = self._call(request, self.kept, frozenset(request["skip_kernels"]))
        self._synchronize()
        answer = called.answer(called.flags.tolist(), self.attester.brief(called.num_unfinished))
        self.outputs = called.outputs
        return answer, []

    def run_many(self, request: dict[str, Any], _payload: bytearray) -> Answer:
        """Watched calls in a row. What each returns is copied before the next; the GPU is waited
        for once."""
        self.outputs = []
        given, calls = iter(self.kept), []
        for each in request["calls"]:
            kept = [next(given) for _ in range(each["num_inputs"])]
            called = self._call({**each, "name": request["name"]}, kept, frozenset())
            called.outputs = [fresh_copy(output) for output in called.outputs]
            calls.append(called)
        self._synchronize()
        process = self.attester.brief(sum(called.num_unfinished for called in calls))
        flags = iter(torch.cat([called.flags for called in calls]).tolist())
        answers = [called.answer([next(flags) for _ in called.flags], process) for called in calls]
        self.outputs = [output for called in calls for output in called.outputs]
        return {"calls": answers}, []

    def _call(self, request: dict[str, Any], kept: list[Any], skipped: frozenset[str]) -> "Called":
        """One watched call on copies of `kept`; nothing is waited for."""
        loaded, poison = self.loaded[request["name"]], float(request["poison"])
        zones = RedZones(self.device) if self.role == "cuda" else None
        inputs = self._fresh_inputs(kept, zones)
        if self.role == "cuda":
            watch.poison_allocator(self.device, poison)
        self.launches.reset(skipped)
        seed_generators(request["seed"], self.device)
        witness = self.launches.witness = Witness()
        try:
            with witness, torch.no_grad(), watch.Watch(poison, zones) as watched:
                result = loaded.call(*inputs)
        finally:
            self.launches.witness, self.launches.skipped = None, frozenset()
        structure, leaves = flatten(result)
        outputs = [torch.Tensor.detach(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor)]
        overrun = _no(self.device) if zones is None else zones.overrun()
        return Called(
            outputs=outputs,
            flags=torch.stack([overrun, *_changed(kept, inputs, self.device)]),
            num_unfinished=self.launches.unfinished(),
            facts={
                **_described(structure, outputs, inputs),
                "launches": dict(self.launches.counts),
                "suppressed": dict(self.launches.suppressed),
                "operators": {**watched.operators, **witness.seen(), **self.launches.operators},
            },
        )

    def _describe(self, result: object, inputs: list[Any]) -> dict[str, Any]:
        """Structure and metadata of what a call returned, kept here until it is fetched."""
        structure, leaves = flatten(result)
        self.outputs = [
            torch.Tensor.detach(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor)
        ]
        changed = torch.stack(_changed(self.kept, inputs, self.device) or [_no(self.device)])
        return {
            **_described(structure, self.outputs, inputs),
            "changed": _indices(changed.tolist()),
        }

    # -- timed calls

    @property
    def timer(self) -> Timer:
        if self._timer is None:
            raise RuntimeError("calls are timed on CUDA only")
        return self._timer

    def prepare(self, request: dict[str, Any], _payload: bytearray) -> Answer:
        """Make ready what is timed next: a call on fresh copies of the inputs, or a replay of the
        captured graph, its inputs overwritten. Fresh memory is poisoned as in a watched call."""
        self.outputs = []
        self.timer.forget()
        if request["is_replay"]:
            self.timer.ready_to_replay(self.kept)
        else:
            self.timer.ready(self.loaded[request["name"]].call, self._fresh_inputs(self.kept))
        watch.poison_allocator(self.device, float(request["poison"]))
        seed_generators(request["seed"], self.device)
        self._synchronize()
        return {}, []

    def capture(self, request: dict[str, Any], _payload: bytearray) -> Answer:
        """Capture a call on the inputs at hand as a CUDA graph; say why where that fails."""
        self.outputs = []
        self.timer.forget()
        seed_generators(request["seed"], self.device)
        call, inputs = self.loaded[request["name"]].call, self._fresh_inputs(self.kept)
        return {"refused": self.timer.capture(call, inputs, self.kept)}, []

    def time(self, request: dict[str, Any], _payload: bytearray) -> Answer:
        """Cold calls of what is ready, or (is_idle) of nothing at all; usually one."""
        how = {name: request[name] for name in ("is_idle", "repeats", "pause_ms")}
        return {"time_ms": self.timer.time(**how)}, []

    def describe(self, _request: dict[str, Any], _payload: bytearray) -> Answer:
        """What the timed call returned; its outputs can be fetched."""
        described = self._describe(self.timer.result, self.timer.inputs)
        return {**described, "process": self.attester.brief()}, []

    def release(self, _request: dict[str, Any], _payload: bytearray) -> Answer:
        """Make room for the host and other guests."""
        self.kept, self.used, self.outputs = [], [], []
        self.timer.forget()
        torch.cuda.empty_cache()
        return {}, []

    def kernel_time_share(self, request: dict[str, Any], _payload: bytearray) -> Answer:
        """Share of a call's GPU time in kernels this process launched through Triton, or None."""
        call = partial(self.loaded[request["name"]].call, *self._fresh_inputs(self.kept))
        try:
            return {"share": own_share(call, self.launches.watch_spans)}, []
        finally:
            self.launches.spans = None

    def fetch(self, request: dict[str, Any], _payload: bytearray) -> Answer:
        """Hand over the last outputs: bytes on CPU, into the host's device memory on CUDA.

        Between timed calls the allocator keeps its blocks, as it does in use.
        """
        outputs, self.outputs = self.outputs, []
        if self.role != "cuda":
            return {}, [chunk(tensor) for tensor in outputs]
        from kernelwright.sandbox import cuda_memory

        cuda_memory.deliver(request["shared"], request["begins"], outputs)
        if request["is_timed"]:
            return {"has_changed": self.timer.has_changed(outputs)}, []
        del outputs
        if torch.cuda.memory_reserved() > _KEPT_BYTES:
            torch.cuda.empty_cache()  # the host and other guests need room too
        return {}, []

    def compile(self, request: dict[str, Any], _payload: bytearray) -> Answer:
        from kernelwright.sandbox import compile_hook

        loaded, limit = self.loaded[request["name"]], OwnCode(request["own_code_s"])
        inputs, measures = request["inputs"], request["measures"]
        return compile_hook.collect(loaded, inputs, limit, measures=measures), []


@dataclass(slots=True)
class Called:
    """A call that was made, and what cannot be told before the GPU is through."""

    outputs: list[torch.Tensor]
    flags: torch.Tensor
    """Something was written beside a tensor; and of each input, whether it was changed."""
    num_unfinished: int
    facts: dict[str, Any]

    def answer(self, flags: list[bool], process: dict[str, Any]) -> dict[str, Any]:
        overrun, *changed = flags
        found = {"overrun": overrun, "changed": _indices(changed), "process": process}
        return {**self.facts, **found}


def _described(structure: str, outputs: list[torch.Tensor], inputs: list[Any]) -> dict[str, Any]:
    return {
        "structure": structure,
        "outputs": [TensorMeta.of(tensor).to_json() for tensor in outputs],
        "aliases": _aliases(outputs, inputs),
    }


def _no(device: torch.device) -> torch.Tensor:
    """False, on a device that is named: a candidate may have changed the default."""
    return torch.zeros((), dtype=torch.bool, device=device)


def _changed(kept: list[Any], used: list[Any], device: torch.device) -> list[torch.Tensor]:
    """Of each input, whether its bytes are others now; nothing is waited for."""
    return [
        (flat_span(mine) != flat_span(given)).any()
        if isinstance(mine, torch.Tensor)
        else _no(device)
        for mine, given in zip(kept, used, strict=True)
    ]


def _indices(flags: list[bool]) -> list[int]:
    return [i for i, flag in enumerate(flags) if flag]


def _aliases(outputs: list[torch.Tensor], inputs: list[Any]) -> list[tuple[int, int]]:
    """(output, input) pairs whose storage ranges overlap."""
    return [
        (i, j)
        for i, output in enumerate(outputs)
        for j, given in enumerate(inputs)
        if isinstance(given, torch.Tensor) and _overlap(output, given)
    ]


def _overlap(left: torch.Tensor, right: torch.Tensor) -> bool:
    left_bytes, right_bytes = (TensorMeta.of(t).span_bytes for t in (left, right))
    if not left_bytes or not right_bytes:
        return False
    return (
        left.data_ptr() < right.data_ptr() + right_bytes
        and right.data_ptr() < left.data_ptr() + left_bytes
    )
