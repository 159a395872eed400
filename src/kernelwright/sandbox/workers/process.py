"""The process of one worker of a `LocalExecutor`. It runs our code only; candidates run in guests.

Frames from the executor: first the factory, then jobs. Frames to it: one that says the worker is
made, or why not, then one answer a job, in order.
"""

import os
import queue
import socket
import threading
import time
import traceback
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from kernelwright.core.errors import UsageError
from kernelwright.sandbox.confine import orphaned
from kernelwright.sandbox.shared import wire
from kernelwright.sandbox.workers.executor import Factory, Worker

_EXECUTOR_S = 60.0
"""More than an executor gives its workers to end."""
_ORDERLY_S = 0.5
"""A worker whose executor is gone may end in order so long."""

_Messages = queue.SimpleQueue[wire.Header | None]


def main(channel_fd: int, executor: int) -> None:
    """Serve until the executor closes its end, or a job breaks the worker.

    Args:
        executor: the executor's process; it may have ended already.
    """
    with socket.socket(fileno=channel_fd) as channel:
        order, _ = wire.receive(channel, max_payload_bytes=0)
        messages: _Messages = queue.SimpleQueue()
        worker_made: Future[Worker] = Future()
        reading = (channel, worker_made, messages, executor)
        threading.Thread(target=_read, args=reading, daemon=True).start()
        try:
            worker = Factory(order["target"], order["arguments"]).make()
        except BaseException as error:
            wire.send(channel, {"ready": False, **described(error)})
            return
        worker_made.set_result(worker)
        try:
            with suppress(wire.Closed):
                wire.send(channel, {"ready": True, "pid": os.getpid()})
                _serve(channel, worker, messages)
        finally:
            worker.close()


def _serve(channel: socket.socket, worker: Worker, messages: _Messages) -> None:
    while (message := messages.get()) is not None:
        try:
            answer = {"id": message["id"], "answer": worker.run(message["job"])}
        except BaseException as error:
            wire.send(channel, {"id": message["id"], **described(error)})
            return  # whatever broke here may still be broken
        wire.send(channel, answer)


def _read(
    channel: socket.socket, worker_made: "Future[Worker]", messages: _Messages, executor: int
) -> None:
    """Take what arrives at once, so that neither side ever waits for the other to read. See that
    the executor is gone, also while the worker is made or runs a job."""
    with suppress(wire.Closed, OSError):
        while True:
            message, _ = wire.receive(channel, max_payload_bytes=0)
            worker_made.result().begin(message["job"])
            messages.put(message)
    messages.put(None)
    # An executor that lives ends its workers itself.
    if orphaned.is_gone(executor, _EXECUTOR_S):
        time.sleep(_ORDERLY_S)
        orphaned.exit_at_once()


def described(error: BaseException) -> dict[str, Any]:
    """An error as data: whose fault, and the text."""
    if isinstance(error, UsageError):
        return {"usage": str(error)}
    return {"failure": "".join(traceback.format_exception(error))[-4_000:]}
