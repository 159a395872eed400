"""Requests to a guest and its answers, each with the nonce of its request."""

import secrets
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kernelwright.core.errors import InfraError, KernelwrightError
from kernelwright.core.text import printable
from kernelwright.sandbox.host.guest_process import GuestProcess
from kernelwright.sandbox.host.reading import name_of
from kernelwright.sandbox.shared import wire
from kernelwright.sandbox.shared.contract import GuestFault
from kernelwright.timing.deadline import NEVER

_START_S = 60.0
"""To say hello. The candidate's limits do not hold yet: nothing of its runs."""

_MAX_MESSAGE, _MAX_LINE = 2_500, 1 << 31
"""Characters of a fault's message; lines of a file."""


class GuestRaised(GuestFault):
    """The guest answers that a request raised an exception."""


class Exchange:
    """The host's end of a guest's channel. A breach of the protocol ends the guest.

    Args:
        wall_s: the longest wait for an answer, in seconds.
    """

    def __init__(self, channel: socket.socket, process: GuestProcess, wall_s: float) -> None:
        self._channel, self._process, self._wall_s = channel, process, wall_s
        self.deadline = NEVER
        self.alive = True

    def hello(self) -> wire.Header:
        """Returns the guest's first message.

        Raises:
            TimeoutError, wire.Closed, wire.MalformedFrame: the guest did not start.
        """
        try:
            return self._receive(time.monotonic() + _START_S)[0]
        except (TimeoutError, wire.Closed, wire.MalformedFrame):
            self.end()
            raise

    def request(
        self, op: str, chunks: Sequence[memoryview] = (), **values: Any
    ) -> tuple[wire.Header, float]:
        """Sends a request; returns the header of the answer, and the milliseconds until it was
        there.

        Raises:
            GuestFault: the candidate raised, or the guest ended, or did not answer in time.
            InfraError: the guest has ended before.
            OutOfTime: the user's deadline passed.
        """
        header, _, wall_ms = self._exchange({"op": op, **values}, chunks, 0)
        return header, wall_ms

    def request_payload(self, op: str, num_bytes: int, **values: Any) -> bytearray:
        """Sends a request; returns the answer's payload of at most `num_bytes`. Raises as
        `request`."""
        return self._exchange({"op": op, **values}, (), num_bytes)[1]

    def _exchange(
        self, request: wire.Header, chunks: Sequence[memoryview], max_payload_bytes: int
    ) -> tuple[wire.Header, bytearray, float]:
        if not self.alive:
            raise InfraError("this guest has ended; start another")
        # A candidate that writes into the channel ahead of time cannot know the nonce.
        nonce = secrets.token_hex(8)
        begin_s = time.monotonic()
        deadline_s = begin_s + min(self._wall_s, self.deadline.left_s())
        try:
            wire.send(self._channel, {**request, "nonce": nonce}, chunks, deadline_s=deadline_s)
            header, payload = self._receive(deadline_s, max_payload_bytes)
        except TimeoutError:
            self.end()
            # The user's own deadline is no fault of the candidate: this raises `OutOfTime`.
            self.deadline.check()
            message = f"no answer to {request['op']!r} within {self._wall_s:g} s"
            raise GuestFault("timeout", message) from None
        except wire.Closed:
            self.alive = False
            raise self._process.death() from None
        except wire.MalformedFrame as error:
            raise self.malformed(str(error)) from error
        if header.get("nonce") != nonce:
            raise self.malformed("an answer nobody asked for")
        if "fault" in header:
            raise self._fault(header)
        return header, payload, (time.monotonic() - begin_s) * 1e3

    def _receive(
        self, deadline_s: float, max_payload_bytes: int = 0
    ) -> tuple[wire.Header, bytearray]:
        return wire.receive(
            self._channel,
            max_payload_bytes=max_payload_bytes,
            deadline_s=deadline_s,
            from_guest=True,
        )

    def _fault(self, header: wire.Header) -> GuestFault:
        """Returns the fault that the guest reports. A lost CUDA context ends the guest."""
        if header.get("context_lost"):
            self.end()
        with self.reading():
            fault = header["fault"]
            line = fault["line"]
            message = f"{name_of(fault['type'])}: {fault['message']}"
            return GuestRaised(
                name_of(fault["kind"]),
                printable(message, _MAX_MESSAGE),
                line=line if type(line) is int and 0 < line < _MAX_LINE else None,
            )

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Reads an answer inside. Whatever the reading raises is the guest's fault: otherwise a
        policy could learn to break the host.

        Raises:
            GuestFault: the answer does not follow the protocol.
        """
        try:
            yield
        except (GuestFault, KernelwrightError):
            raise
        except Exception as error:
            raise self.malformed() from error

    def malformed(self, why: str = "an answer that does not follow the protocol") -> GuestFault:
        """Ends the guest, and returns the fault to raise."""
        self.end()
        return GuestFault("malformed", why)

    def end(self) -> None:
        """Ends the guest's process, if it still runs."""
        if self.alive:
            self.alive = False
            self._process.end()

    def close(self) -> None:
        self._channel.close()
