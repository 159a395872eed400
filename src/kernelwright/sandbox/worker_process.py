"""The process of one worker of a `LocalExecutor`. It runs our code only; candidates run in guests.

Frames from the executor: first the factory, then jobs. Frames to it: one that says the worker is
made, or why not, then one answer a job, in order.
"""

import os
import queue
import socket
import threading
import traceback
from contextlib import suppress
from typing import Any

from kernelwright.core.errors import UsageError
from kernelwright.sandbox import wire
from kernelwright.sandbox.executor import Factory, Worker


def main(channel_fd: int) -> None:
    """Serve until the executor closes its end, or a job breaks the worker."""
    with socket.socket(fileno=channel_fd) as channel:
        order, _ = wire.receive(channel, max_payload_bytes=0)
        try:
            worker = Factory(order["target"], order["arguments"]).make()
        except BaseException as error:
            wire.send(channel, {"ready": False, **described(error)})
            return
        wire.send(channel, {"ready": True, "pid": os.getpid()})
        try:
            with suppress(wire.Closed):
                _serve(channel, worker)
        finally:
            worker.close()


def _serve(channel: socket.socket, worker: Worker) -> None:
    waiting: queue.SimpleQueue[wire.Header | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(channel, worker, waiting), daemon=True).start()
    while (message := waiting.get()) is not None:
        try:
            answer = {"id": message["id"], "answer": worker.run(message["job"])}
        except BaseException as error:
            wire.send(channel, {"id": message["id"], **described(error)})
            return  # whatever broke here may still be broken
        wire.send(channel, answer)


def _read(
    channel: socket.socket, worker: Worker, waiting: "queue.SimpleQueue[wire.Header | None]"
) -> None:
    """Take what arrives at once, so that neither side ever waits for the other to read."""
    while True:
        try:
            message, _ = wire.receive(channel, max_payload_bytes=0)
        except (wire.Closed, OSError):
            waiting.put(None)
            return
        worker.begin(message["job"])
        waiting.put(message)


def described(error: BaseException) -> dict[str, Any]:
    """An error as data: whose fault, and the text."""
    if isinstance(error, UsageError):
        return {"usage": str(error)}
    return {"failure": "".join(traceback.format_exception(error))[-4_000:]}
