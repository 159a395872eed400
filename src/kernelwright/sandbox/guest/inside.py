"""Guest side: answers the host's requests, one at a time, until the channel closes.

Everything here runs beside hostile code in one process and decides nothing: the host judges.
"""

import gc
import os
import secrets
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from kernelwright.sandbox.guest import (
    attest,
    candidate,
    compile_hook,
    compiling,
    kernel_cache,
    surroundings,
    tuned,
    watch,
)
from kernelwright.sandbox.guest.called import (
    DescribedCall,
    changed,
    changed_by,
    described,
    described_timed,
    first_alike,
    fit,
    no_flag,
    observed_results,
    offset_copy,
    placed,
    require_gradients,
)  # fmt: skip
from kernelwright.sandbox.guest.crossings import Crossings, counted
from kernelwright.sandbox.guest.instances import Held, Instances
from kernelwright.sandbox.guest.own_code import OwnCode
from kernelwright.sandbox.guest.red_zones import RedZones
from kernelwright.sandbox.guest.timed import Timer, own_share
from kernelwright.sandbox.guest.witness import Witness, count_thread_starts
from kernelwright.sandbox.shared import cuda_memory, wire
from kernelwright.sandbox.shared.manner import WATCHED, Manner
from kernelwright.sandbox.shared.seeding import seed_generators
from kernelwright.sandbox.shared.starting import SCRATCH
from kernelwright.sandbox.shared.tensors import TensorMeta, chunk, flat_span, fresh_copy
from kernelwright.sandbox.shared.tensors import from_payload as tensors_from_payload
from kernelwright.timing.waiting import sleep_while_waiting

Answer = tuple[dict[str, Any], list[memoryview]]


def serve(inside: "Inside", channel: socket.socket, order: dict[str, Any], held: list[str]) -> None:
    """Sends a greeting with the guards that hold, then answers requests until the channel closes.

    Args:
        inside: made by the fork server.
        order: as `ForkServer.guest` wrote it.
    """
    folder = Path(order["folder"])
    kernel_cache.install(
        Path(os.environ["TRITON_CACHE_DIR"]),
        list(map(Path, order["ours"])),
        is_shared=bool(order["cache"]),
    )
    surroundings.take_standard_streams(folder / SCRATCH)
    if inside.role != "compile":
        surroundings.start_threads()
    if inside.role == "cuda":
        if order["patient"]:
            sleep_while_waiting()
        torch.cuda.init()  # type: ignore[no-untyped-call]
        torch.zeros(1, device="cuda")  # the context, whose threads and files are not a candidate's
        torch.cuda.synchronize()
        if order["compiles"]:
            compiling.load_compiler()
    born = inside.begin(folder)
    gc.freeze()
    wire.send(channel, {"isolation": held, "born": born})
    while True:
        try:
            request, payload = wire.receive(channel, max_payload_bytes=1 << 40)
        except wire.Closed:
            return
        header, chunks = inside.answer(request, payload)
        wire.send(channel, {**header, "nonce": request["nonce"]}, chunks)


OPERATIONS = frozenset({
    "load", "construct", "duplicate", "move", "train", "drop", "attributes", "let_go", "state",
    "load_state", "put", "run", "run_many", "prepare", "capture", "time", "describe", "release",
    "share", "fetch", "compile", "forget", "attest",
})  # fmt: skip
"""The methods of `Inside` that answer requests."""
_KEPT_BYTES = 1 << 30
"""Bytes of freed memory that a guest may hold: asking anew costs more than a small call."""


class Inside:
    """One guest's state: candidates by name, the inputs at hand, the last outputs.

    The fork server makes it, and its guests inherit it: PyTorch and Triton are patched once.
    """

    def __init__(self, role: str) -> None:
        self.role = role
        self.folder = Path()
        self.device = torch.device("cuda", 0) if role == "cuda" else torch.device("cpu")
        self.loaded: dict[str, candidate.LoadedCandidate] = {}
        self.kept: list[Any] = []  # inputs as the host sent them
        self.used: list[Any] = []  # what the last call was given; held so addresses change
        self.outputs: list[torch.Tensor] = []
        self.result: object = None  # of the last call
        self.held = Held()
        self.launches = watch.Launches()
        self.turns = tuned.Turns()
        if role != "compile":
            self.launches.install()
            self.turns.install()
            count_thread_starts()
        self._timer: Timer | None = None
        attest.objects()  # by the names of modules, which the next line removes
        surroundings.hide_ourselves()
        self.attester = attest.Attester(on_gpu=role == "cuda")

    def begin(self, folder: Path) -> dict[str, Any]:
        """Returns the process's state at birth, in a guest that has its context and its threads."""
        self.folder = folder
        if self.role == "cuda":  # what a context brings with it is not a candidate's
            self._timer = Timer()
            self.attester = attest.Attester(on_gpu=True)
        return self.attester.begin()

    def answer(self, request: dict[str, Any], payload: bytearray) -> Answer:
        """Does what the host asks. An exception of the candidate becomes data in the answer."""
        loaded = self.loaded.get(request.get("name", ""))
        path = self.folder / request["file"] if "file" in request else None
        path = loaded.path if loaded is not None else path
        try:
            if request["op"] not in OPERATIONS:
                raise ValueError(f"no operation {request['op']!r}")
            answer: Answer = getattr(self, request["op"])(request, payload)
            return answer
        except BaseException as error:  # the guest's outermost frame
            default = "load" if request["op"] == "load" else "runtime"
            fault = candidate.fault(error, path, default)
            return {"fault": fault, "context_lost": self._context_lost()}, []

    def _context_lost(self) -> bool:
        """Whether a CUDA fault has broken the context: it then refuses every further call."""
        if self.role != "cuda":
            return False
        try:
            torch.cuda.synchronize()
        except RuntimeError:
            return True
        return False

    # -- candidates

    def load(self, request: dict[str, Any], _payload: bytearray) -> Answer:
        init = self._init(request)
        kernel_cache.renew(request["cache"], request["kernels"])
        with surroundings.grad_mode(has_grad=False):
            loaded = candidate.load(self.folder / request["file"], init)
        self.loaded[request["name"]] = loaded
        return {"entry": loaded.entry, "kernels": loaded.kernels}, []

    def forget(self, request: dict[str, Any], _payload: bytearray) -> Answer:
        """Drops a candidate and all that was kept for it."""
        self.kept, self.used, self.outputs, self.result = [], [], [], None
        self.held.let_go()
        if (loaded := self.loaded.pop(request["name"], None)) is not None:
            candidate.unload(loaded)
        del loaded
        gc.collect()  # what was there before is frozen: this sees the candidate's objects alone
        gc.freeze()
        attest.reset_conveniences()
        return {}, []

    def attest(self, _request: dict[str, Any], _payload: bytearray) -> Answer:
        """Reports on the process as a whole, for the host to compare with its birth."""
        own = [candidate.module_name(source.path) for source in self.loaded.values()]
        return {"process": self.attester.full(own)}, []

    # -- instances

    def _init(self, request: dict[str, Any]) -> dict[str, Any] | None:
        init = request["init"]
        return None if init is None else {"device": str(self.device), **init}

    def _instances(self, request: dict[str, Any]) -> Instances:
        return self.loaded[request["name"]].instances

    def construct(self, request: dict[str, Any], _payload: bytearray) -> Answer:
        with surroundings.grad_mode(has_grad=False):
            return {"instance": self._instances(request).construct(self._init(request) or {})}, []

    def duplicate(self, request: dict[str, Any], _payload: bytearray) -> Answer:
        return {"instance": self._instances(request).duplicate(request["instance"])}, []

    def move(self, request: dict[str, Any], _payload: bytearray) -> Answer:
        self._instances(request).move(request["instance"])
        return {}, []

    def train(self, request: dict[str, Any], _payload: bytearray) -> Answer:
        is_training = request["is_training"]
        self._instances(request).train(request["instance"], is_training=is_training)
        return {}, []

    def drop(self, request: dict[str, Any], _payload: bytearray) -> Answer:
        self._instances(request).drop(request["instance"])
        return {}, []

    def attributes(self, request: dict[str, Any], _payload: bytearray) -> Answer:
        return {"attributes": self._instances(request).attributes(request["instance"])}, []

    def let_go(self, _request: dict[str, Any], _payload: bytearray) -> Answer:
        """Frees the outputs of calls that were kept, and answers of how many calls they live on."""
        self._let_results_go()
        return {"kept": self.held.let_go()}, []

    def state(self, request: dict[str, Any], _payload: bytearray) -> Answer:
        entries = self._instances(request).entries(request["instance"])
        described = [
            {"name": name, "kind": kind, **TensorMeta.of(tensor).to_json()}
            for name, kind, tensor in entries
        ]
        self.outputs = [torch.Tensor.detach(tensor) for _, _, tensor in entries]
        return {"entries": described}, []

    def load_state(self, request: dict[str, Any], _payload: bytearray) -> Answer:
        """Sets parameters and buffers of these names to the inputs at hand."""
        values, self.kept = self.kept, []
        instances = self._instances(request)
        instances.load(request["instance"], request["names"], values, request["how"])
        return {}, []

    # -- calls

    def put(self, request: dict[str, Any], payload: bytearray) -> Answer:
        """Takes inputs: bytes on CPU, shared device memory on CUDA, plain values as literals."""
        items = request["inputs"]
        described = [item for item in items if "literal" not in item]
        metas = [TensorMeta.from_json(item) for item in described]
        self.kept = []  # make room first
        if self.role == "cuda":
            taken = cuda_memory.take(request["shared"], request["begins"], metas)
        else:
            taken = tensors_from_payload(metas, payload)
        tensors = iter(taken)
        self.kept = [item["literal"] if "literal" in item else next(tensors) for item in items]
        return {}, []

    def _given(self, kept: list[Any], manner: Manner, zones: RedZones | None = None) -> list[Any]:
        """Returns copies of the inputs at addresses that the call before did not use, or the
        objects of the call before with these contents."""
        if manner.keeps_objects and fit(self.used, kept):
            for mine, value in zip(self.used, kept, strict=True):
                if isinstance(mine, torch.Tensor):  # `.data`: the version counter stays the same
                    flat_span(mine.data).copy_(flat_span(value))
                    if mine.is_leaf:  # as before a call in inference mode
                        mine.requires_grad_(False)
            return [
                mine if isinstance(mine, torch.Tensor) else value
                for mine, value in zip(self.used, kept, strict=True)
            ]
        padding = torch.empty(512 * (1 + secrets.randbelow(64)), device=self.device)
        copy = fresh_copy if zones is None else zones.copy
        if manner.has_offsets and zones is None:
            copy = offset_copy
        fresh = [copy(v) if isinstance(v, torch.Tensor) else v for v in kept]
        if manner.is_same:
            fresh = [fresh[first_alike(kept, i)] for i in range(len(kept))]
        del padding
        if manner.is_inference:
            require_gradients(fresh)
        self.used = fresh
        return fresh

    def _synchronize(self) -> None:
        if self.role == "cuda":
            torch.cuda.synchronize()

    def run(self, request: dict[str, Any], _payload: bytearray) -> Answer:
        """Calls a candidate once. Inputs that change when the last results die are changed, too."""
        late = changed_by(self._let_results_go, self.used)
        called = self._call(request, self.kept, frozenset(request["skip_kernels"]))
        self._synchronize()
        overwritten = self.held.overwritten(called.outputs)
        ours = [*self.kept, *self.used, called.flags]
        kept_bytes = self.held.add(called.outputs, ours) if request["is_held"] else 0
        wanted = [torch.Tensor.detach(self.used[i]) for i in request["wanted_inputs"]]
        answer = called.answer(called.flags.tolist(), self.attester.brief(called.num_unfinished))
        answer["changed"] += late
        self.outputs = called.outputs + wanted
        answer["outputs"] += [TensorMeta.of(tensor).to_json() for tensor in wanted]
        return answer | {"overwritten": overwritten, "kept_bytes": kept_bytes}, []

    def _let_results_go(self) -> None:
        self.outputs, self.result = [], None

    def run_many(self, request: dict[str, Any], _payload: bytearray) -> Answer:
        """Makes calls in a row. Results are copied after each call; the GPU is waited for once."""
        self.outputs, self.result = [], None
        tensors, calls = iter(self.kept), []
        for asked in request["calls"]:
            kept = [next(tensors) for _ in range(asked["num_inputs"])]
            called = self._call({**asked, "name": request["name"]}, kept, frozenset())
            called.outputs = [fresh_copy(output) for output in called.outputs]
            self.result = None
            calls.append(called)
        self._synchronize()
        process = self.attester.brief(sum(called.num_unfinished for called in calls))
        flags = iter(torch.cat([called.flags for called in calls]).tolist())
        answers = [called.answer([next(flags) for _ in called.flags], process) for called in calls]
        self.outputs = [output for called in calls for output in called.outputs]
        return {"calls": answers}, []

    def _call(
        self, request: dict[str, Any], kept: list[Any], skipped: frozenset[str]
    ) -> "DescribedCall":
        """Calls the candidate once on copies of `kept`, and does not wait for the GPU."""
        loaded, poison = self.loaded[request["name"]], float(request["poison"])
        manner, instance = Manner.from_json(request["manner"]), request.get("instance", 0)
        has_zones = self.role == "cuda" and manner.is_watched and not manner.keeps_objects
        zones = RedZones(self.device) if has_zones else None
        inputs = self._given(kept, manner, zones)
        before = placed(inputs, has_zones=has_zones)
        if self.role == "cuda" and manner.is_watched:
            watch.poison_allocator(self.device, poison)
        self.launches.reset(skipped)
        seed_generators(request["seed"], self.device)
        operators: dict[str, int] = {}
        crossings: Crossings | None = None
        with (
            surroundings.surrounded(manner),
            compiling.stance(manner),
            self.turns.forced(manner.turn),
        ):
            if manner.is_watched:
                state = [tensor for _, _, tensor in loaded.instances.entries(instance)]
                crossings = Crossings(inputs, state, traces_memory=manner.traces_memory)
                call = loaded.call(instance)
                result = self._watched(call, inputs, poison, zones, crossings, operators)
            else:
                result = self._witnessed(loaded.call(instance), inputs, operators)
        self.result = result  # a user holds it too: what happens at its end comes after the copy
        results = observed_results(result, loaded.instances, instance, manner)
        outputs, late = results.outputs, results.operators
        if crossings is not None:
            crossings.end(outputs)
            late = {**crossings.notes, **late}
        overrun = no_flag(self.device) if zones is None else zones.overrun()
        return DescribedCall(
            outputs=outputs,
            flags=torch.stack([overrun, *changed(kept, inputs, self.device, before)]),
            num_unfinished=self.launches.unfinished(),
            facts={
                **described(results.structure, outputs, inputs, results.state),
                **results.marks,
                "launches": dict(self.launches.counts),
                "suppressed": dict(self.launches.suppressed),
                "operators": {**operators, **late, **self.launches.operators},
            },
        )

    def _watched(
        self,
        call: Callable[..., object],
        inputs: list[Any],
        poison: float,
        zones: RedZones | None,
        crossings: Crossings,
        operators: dict[str, int],
    ) -> object:
        """Returns the results of the call, and adds the operators that ran to `operators`."""
        witness = self.launches.witness = Witness()
        self.launches.crossings = crossings
        try:
            with witness, counted(crossings), watch.CallWatch(poison, crossings, zones) as watching:
                self.launches.watch = watching
                return call(*inputs)
        finally:
            self.launches.witness, self.launches.skipped = None, frozenset()
            self.launches.crossings = self.launches.watch = None
            operators.update({**crossings.notes, **witness.seen()})

    def _witnessed(
        self, call: Callable[..., object], inputs: list[Any], operators: dict[str, int]
    ) -> object:
        """Returns the results of an unwatched call. The observer below Python runs here too, so
        that a candidate cannot tell the two kinds of calls apart."""
        witness = self.launches.witness = Witness()
        try:
            with witness:
                return call(*inputs)
        finally:
            self.launches.witness, self.launches.skipped = None, frozenset()
            operators.update(witness.seen())

    # -- timed calls

    @property
    def timer(self) -> Timer:
        if self._timer is None:
            raise RuntimeError("calls are timed on CUDA only")
        return self._timer

    def prepare(self, request: dict[str, Any], _payload: bytearray) -> Answer:
        """Prepares the next timed call: a call on fresh copies, or a replay of the captured graph.
        Fresh memory is poisoned."""
        self.outputs, self.result = [], None
        self.timer.forget()
        if request["is_replay"]:
            self.timer.ready_to_replay(self.kept)
        else:
            manner = Manner.from_json(request["manner"])
            call = self.loaded[request["name"]].call(request["instance"])
            self.timer.ready(call, self._given(self.kept, manner), has_grad=manner.has_grad)
        watch.poison_allocator(self.device, float(request["poison"]))
        seed_generators(request["seed"], self.device)
        self._synchronize()
        return {}, []

    def capture(self, request: dict[str, Any], _payload: bytearray) -> Answer:
        """Captures a call on the inputs at hand as a CUDA graph, or answers why that fails."""
        self.outputs, self.result = [], None
        self.timer.forget()
        seed_generators(request["seed"], self.device)
        call = self.loaded[request["name"]].call(request["instance"])
        inputs = self._given(self.kept, WATCHED)
        return {"refused": self.timer.capture(call, inputs, self.kept)}, []

    def time(self, request: dict[str, Any], _payload: bytearray) -> Answer:
        """Times cold calls of what is prepared, usually one; with `is_idle`, calls of nothing at
        all."""
        how = {name: request[name] for name in ("is_idle", "repeats", "pause_ms")}
        time_ms = self.timer.time(**how)
        return {"time_ms": time_ms, "queued_ms": self.timer.queued_ms}, []

    def describe(self, _request: dict[str, Any], _payload: bytearray) -> Answer:
        """Describes the timed call's results; its outputs can be fetched afterwards."""
        timer = self.timer
        self.outputs, facts = described_timed(timer.result, timer.inputs, self.kept, self.device)
        return {**facts, "process": self.attester.brief()}, []

    def release(self, _request: dict[str, Any], _payload: bytearray) -> Answer:
        """Frees inputs, results and cached memory, for the host and other guests."""
        self.kept, self.used, self.outputs, self.result = [], [], [], None
        self.timer.forget()
        torch.cuda.empty_cache()
        return {}, []

    def share(self, request: dict[str, Any], _payload: bytearray) -> Answer:
        """Answers the share of GPU time in kernels launched through Triton, or None."""
        call = partial(self.loaded[request["name"]].call(0), *self._given(self.kept, WATCHED))
        try:
            with compiling.stance(WATCHED):
                return {"share": own_share(call, self.launches.watch_spans)}, []
        finally:
            self.launches.spans = None

    def fetch(self, request: dict[str, Any], _payload: bytearray) -> Answer:
        """Hands over the last outputs: bytes on CPU, copies in the host's device memory on CUDA.
        Between timed calls the allocator keeps its blocks, as it does in use."""
        outputs, self.outputs = [self.outputs[i] for i in request["wanted"]], []
        if self.role != "cuda":
            # NumPy locks the size of a storage that it reads. So it reads copies of the outputs.
            return {}, [chunk(fresh_copy(tensor)) for tensor in outputs]
        cuda_memory.deliver(request["shared"], request["begins"], outputs)
        if request["is_timed"]:
            return {"has_changed": self.timer.has_changed(outputs)}, []
        del outputs
        if torch.cuda.memory_reserved() > _KEPT_BYTES:
            torch.cuda.empty_cache()  # the host and other guests need room too
        return {}, []

    def compile(self, request: dict[str, Any], _payload: bytearray) -> Answer:
        loaded, limit = self.loaded[request["name"]], OwnCode(request["own_code_s"])
        inputs, measures = request["inputs"], request["measures"]
        with compiling.stance(WATCHED):
            return compile_hook.collect(loaded, inputs, limit, measures=measures), []
