"""Frames between host and guest: a JSON header and raw bytes. Never pickle.

Both sides use these functions. The host gives a deadline and a bound, because the bytes that arrive
come from a process that also runs hostile code.
"""

import json
import socket
import struct
import time
from collections.abc import Iterable
from typing import Any

Header = dict[str, Any]

_PREFIX = struct.Struct("<4sIQ")  # magic, header bytes, payload bytes
_MAGIC = b"kwr1"
_MAX_HEADER_BYTES, _MAX_GUEST_HEADER_BYTES = 16 << 20, 2 << 20


class MalformedFrame(Exception):
    """The bytes that arrived are not a frame."""


class Closed(Exception):
    """The other side closed the channel."""


def send(
    channel: socket.socket,
    header: Header,
    chunks: Iterable[memoryview] = (),
    *,
    deadline_s: float | None = None,
) -> None:
    """Sends one frame.

    Args:
        deadline_s: on the monotonic clock.

    Raises:
        TimeoutError: `deadline_s` passed.
        Closed: the other side closed the channel.
    """
    text = json.dumps(header).encode()
    payload = [chunk.cast("B") for chunk in chunks if chunk.nbytes]
    prefix = _PREFIX.pack(_MAGIC, len(text), sum(chunk.nbytes for chunk in payload))
    try:
        for chunk in (memoryview(prefix + text), *payload):
            _limit(channel, deadline_s)
            channel.sendall(chunk)
    except (BrokenPipeError, ConnectionResetError) as error:
        raise Closed from error


def receive(
    channel: socket.socket,
    *,
    max_payload_bytes: int,
    deadline_s: float | None = None,
    from_guest: bool = False,
) -> tuple[Header, bytearray]:
    """Receives one frame: a header and a payload.

    Args:
        from_guest: the header is at most 2 MiB long, and has no NaN and no infinity.

    Raises:
        Closed: end of stream before a whole frame.
        MalformedFrame: wrong magic, sizes above the bounds, or a header that is no JSON object.
        TimeoutError: `deadline_s` passed.
    """
    magic, num_header, num_payload = _PREFIX.unpack(_exactly(channel, _PREFIX.size, deadline_s))
    max_header = _MAX_GUEST_HEADER_BYTES if from_guest else _MAX_HEADER_BYTES
    # The sizes are the sender's words: they are bounded before any memory is taken for them.
    if magic != _MAGIC or num_header > max_header or num_payload > max_payload_bytes:
        raise MalformedFrame("not a frame of this protocol, or larger than allowed")
    try:
        text = _exactly(channel, num_header, deadline_s)
        header = json.loads(text, parse_constant=_refuse if from_guest else None)
    except (ValueError, RecursionError) as error:  # a header of brackets nests too deeply
        raise MalformedFrame("the header is not JSON") from error
    if not isinstance(header, dict):
        raise MalformedFrame("the header is not a JSON object")
    return header, _exactly(channel, num_payload, deadline_s)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _exactly(channel: socket.socket, num_bytes: int, deadline_s: float | None) -> bytearray:
    """Receives exactly so many bytes."""
    buffer = bytearray(num_bytes)
    view = memoryview(buffer)
    while view:
        _limit(channel, deadline_s)  # for each part: bytes that trickle in must not extend it
        try:
            count = channel.recv_into(view)
        except ConnectionResetError as error:
            raise Closed from error
        if count == 0:
            raise Closed
        view = view[count:]
    return buffer


def _limit(channel: socket.socket, deadline_s: float | None) -> None:
    """Sets the channel's timeout to the time that is left; raises `TimeoutError` if none is."""
    if deadline_s is None:
        return
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    channel.settimeout(left_s)
