# mypy: ignore-errors
"""The honest part of each hostile candidate, and what attacks share.

The text of this file is the head of a candidate. The text of one attack and an entry follow.
"""

import ctypes
import gc
import json
import math
import os
import resource
import signal
import socket
import struct
import sys
import threading
import time
from contextlib import suppress

import torch
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0), i < n)


def relu(x):
    y = torch.empty_like(x)
    relu_kernel[(triton.cdiv(x.numel(), 4096),)](x, y, x.numel(), BLOCK=4096)
    return y


class Announced(Exception):
    """The attack means to end its own call."""


class VoidAttack(Exception):
    """The attack found nothing to take hold of, so that it tested nothing."""


libc = ctypes.CDLL(None, use_errno=True)
scratch = os.environ.get("TMPDIR", ".")


def leaked(what):
    """Tell the outside through the message of the verdict."""
    raise Announced(f"LEAKED {what}")


def frames():
    """The frames of the judge's code that called the attack."""
    frame = sys._getframe()
    while frame is not None:
        yield frame
        frame = frame.f_back


def value_above(is_wanted, what):
    """An object of the judge's own, from the variables of the frames above."""
    for frame in frames():
        for value in frame.f_locals.values():
            if is_wanted(value):
                return value
    raise VoidAttack(f"no {what} in the frames")


def inside():
    """The object that answers the host's requests."""
    return value_above(lambda value: type(value).__name__ == "Inside", "Inside")


def channel():
    """The socket to the host."""
    return value_above(lambda value: type(value).__name__ == "socket", "channel")


def ours(name):
    """What the module of `Inside` calls by this name."""
    names = type(inside()).answer.__globals__
    if name not in names:
        raise VoidAttack(f"the module of Inside has no {name}")
    return names[name]


def replace_answers(change):
    """From the next request on, `change(operation, header)` alters what the host is answered."""
    holder = inside()
    honest = holder.answer

    def answer(request, payload):
        header, chunks = honest(request, payload)
        return change(request["op"], header) or header, chunks

    holder.answer = answer


def forge_calls(**fields):
    """Answers about calls have these fields."""

    def change(operation, header):
        if operation == "run":
            header.update(fields)
        if operation == "run_many":
            for each in header.get("calls", ()):
                each.update(fields)

    replace_answers(change)


def forge(operation, **fields):
    """Answers to this kind of request are these fields."""
    replace_answers(lambda asked, header: dict(fields) if asked == operation else header)


def raw_frame(text, payload_bytes=0):
    """The bytes of an answer with this JSON text."""
    return struct.pack("<4sIQ", b"kwr1", len(text), payload_bytes) + text


def raw_answer(body):
    """Answer the present request with this JSON text, then keep still."""
    request = value_above(lambda value: type(value) is dict and "nonce" in value, "request")
    text = f'{{"nonce": {json.dumps(request["nonce"])}, {body}}}'.encode()
    channel().sendall(raw_frame(text))
    time.sleep(30)


def fail_at(operation, step):
    """From the next request on, do `step` where this operation is asked for."""
    holder = inside()
    honest = holder.answer

    def answer(request, payload):
        if request["op"] == operation:
            holder.answer = honest
            setattr(holder, operation, step)
        return honest(request, payload)

    holder.answer = answer


def apart():
    """True in a process that outlives its parent: in a session of its own, without a signal."""
    if pid := os.fork():
        os.waitpid(pid, 0)
        return False
    os.setsid()
    if os.fork():
        os._exit(0)
    libc.prctl(1, 0, 0, 0, 0)  # PR_SET_PDEATHSIG
    return True


_carried_out = []


def carry_out(attack, facts, subject, when):
    """Attack once in this process, or in each call; None stands for the honest answer.

    An error of the operating system means that a guard refused.
    """
    if getattr(subject, "is_meta", False) and when != "both":
        return None  # this guest only compiles
    if _carried_out and when != "calls":
        return None
    _carried_out.append(True)
    try:
        return attack(facts, subject)
    except (Announced, MemoryError, OSError) as error:
        if isinstance(error, OSError):
            return None
        raise
    except Exception as error:
        raise VoidAttack(f"{type(error).__name__}: {error}") from error
