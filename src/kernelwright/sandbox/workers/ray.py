"""Workers as Ray actors, on one machine or many. The only file that imports Ray.

Actors, not tasks: a worker is dear to make (torch, a CUDA context, guests) and lives long. Ray
restarts nothing by itself here; an actor that dies with its node is replaced wherever there is
room, and the jobs it held go to others, so that the bookkeeping is that of every executor.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayTaskError

from kernelwright.core.errors import InfraError, UsageError
from kernelwright.core.record import Record
from kernelwright.sandbox.workers.executor import IN_FLIGHT, Done, Factory, Job, JobPool, Ledger
from kernelwright.sandbox.workers.process import described

_POLL_S = 0.05
_PACKAGE = Path(__file__).parents[2]


@dataclass(frozen=True, kw_only=True, slots=True)
class ActorShare:
    """The share of its node that one actor takes."""

    num_cpus: float = 1.0
    num_gpus: float = 0.0
    """A fraction lets actors share one; above a half, a GPU has at most one such actor."""


def connect(address: str | None) -> bool:
    """Join a cluster; whether this call did, rather than an earlier one.

    Raises:
        UsageError: there is none at this address.
    """
    if ray.is_initialized():
        return False
    try:
        ray.init(
            address=address,
            log_to_driver=False,
            logging_level="ERROR",
            include_dashboard=None if address else False,
            runtime_env={"py_modules": [str(_PACKAGE)]},
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise UsageError(
            f"no Ray cluster at {address}: {error}",
            remedy="give HOST:PORT of a head node, or `auto`",
        ) from error
    return True


def resources(address: str) -> tuple[int, int]:
    """(CPU cores, GPUs) of a cluster; it stays joined.

    Raises:
        UsageError: there is none at this address.
    """
    connect(address)
    of_cluster = ray.cluster_resources()
    return int(of_cluster.get("CPU", 0)), int(of_cluster.get("GPU", 0))


START_S = 300.0
"""The seconds without any worker after which a run ends."""
JOB_S = 900.0
"""The seconds that a job may take before its worker is replaced."""


class RayExecutor(JobPool):
    """An `Executor` on a Ray cluster; every node runs this very source tree.

    Args:
        factory: of the workers, one an actor.
        num_workers: actors wanted; as many serve as the cluster has room for.
        share: of its node, each actor.
        address: of the cluster; None: one that Ray finds or starts on this machine.
    """

    def __init__(
        self,
        factory: Factory,
        num_workers: int,
        share: ActorShare,
        *,
        address: str | None = None,
    ) -> None:
        self._factory, self.num_workers, self._share = factory, num_workers, share
        self._address = address
        self._actors: list[_Actor] = []
        self._without_since_s = 0.0
        self._is_connected = False
        """By this executor: it also disconnects."""

    def __enter__(self) -> Self:
        self._is_connected = connect(self._address)
        self._actors = [self._actor() for _ in range(self.num_workers)]
        self._without_since_s = time.monotonic()
        return self

    def __exit__(self, *error: object) -> None:
        closing = [actor.handle.close.remote() for actor in self._actors if actor.is_ready]
        if closing and error[0] is None:
            ray.wait(closing, num_returns=len(closing), timeout=20.0)
        for actor in self._actors:
            actor.kill()
        self._actors = []
        if self._is_connected:
            ray.shutdown()
            self._is_connected = False

    @property
    def _workers(self) -> "Sequence[_Actor]":
        return self._actors

    def _actor(self) -> "_Actor":
        options: dict[str, Any] = asdict(self._share)
        options |= {"max_restarts": 0, "max_task_retries": 0}
        options["max_concurrency"] = IN_FLIGHT + 1  # `begin` while another job runs; `close`
        actor_class = ray.remote(**options)(_Remote)
        return _Actor(actor_class.remote(self._factory.target, self._factory.arguments))

    def _collect(self, ledger: Ledger) -> Iterator[Done]:
        """The next answers of actors; waits a moment at most."""
        refs = {ref: actor for actor in self._actors for ref in actor.refs}
        ready, _ = ray.wait(list(refs), num_returns=1, timeout=_POLL_S)
        for ref in ready:
            yield from self._hear(refs[ref], ref, ledger)

    def _hear(self, actor: "_Actor", ref: Any, ledger: Ledger) -> Iterator[Done]:
        try:
            message: Record = ray.get(ref, timeout=60.0)
        except (RayActorError, RayTaskError, GetTimeoutError) as error:
            yield from self._replace(actor, ledger, f"{type(error).__name__}: {error}"[:2_000])
            return
        if not actor.is_ready:
            self._note_start(actor, message)
        elif "answer" in message:
            job_id = actor.next_one(ref)
            yield from ledger.answered(job_id, message["answer"])
        else:
            why = str(message.get("failure") or message.get("usage"))
            yield from self._replace(actor, ledger, why)

    def _replace(self, actor: "_Actor", ledger: Ledger, why: str) -> Iterator[Done]:
        actor.kill()
        self._actors[self._actors.index(actor)] = self._actor()
        if not any(other.is_ready for other in self._actors):
            self._without_since_s = time.monotonic()
        yield from ledger.lost(actor.held.values(), why)

    def _end_overdue(self, ledger: Ledger) -> Iterator[Done]:
        now_s = time.monotonic()
        for actor in list(self._actors):
            if actor.is_ready and actor.held and now_s - actor.since_s > JOB_S:
                yield from self._replace(actor, ledger, f"no answer within {JOB_S:g} s")
        if any(actor.is_ready for actor in self._actors):
            self._without_since_s = now_s
        elif now_s - self._without_since_s > START_S:
            raise InfraError(f"the cluster has given no worker for {START_S:g} s")


class _Remote:
    """The actor: a worker, its errors as data."""

    def __init__(self, target: str, arguments: dict[str, Any]) -> None:
        self._refusal: Record = {}
        self._turn = threading.Lock()
        try:
            self._worker = Factory(target, arguments).make()
        except Exception as error:  # data, since an exception may not survive the journey
            self._refusal = described(error)

    def ready(self) -> Record:
        return self._refusal

    def run(self, job: Record) -> Record:
        self._worker.begin(job)
        try:
            with self._turn:
                return {"answer": self._worker.run(job)}
        except Exception as error:
            return described(error)

    def close(self) -> None:
        self._worker.close()


class _Actor:
    """One actor, seen from the executor."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.is_ready = False
        self.held: dict[Any, str] = {}
        """Ref -> id of its jobs, in order; it is at the first."""
        self.since_s = time.monotonic()
        self._ready_ref = handle.ready.remote()

    @property
    def refs(self) -> list[Any]:
        """The outstanding results: that the actor is ready, then its answers."""
        return list(self.held) if self.is_ready else [self._ready_ref]

    def give(self, job: Job) -> None:
        if not self.held:
            self.since_s = time.monotonic()
        self.held[self.handle.run.remote(job[1])] = job[0]

    def next_one(self, ref: Any) -> str:
        self.since_s = time.monotonic()
        return self.held.pop(ref)

    def kill(self) -> None:
        with suppress(RayActorError):
            ray.kill(self.handle)
