"""Calls to the Linux kernel that Python has no function for."""

import ctypes
import os
import platform
import signal

_libc = ctypes.CDLL(None, use_errno=True)

MACHINE = platform.machine()
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 24, 36, 38


def checked(result: int) -> int:
    """Returns the result of a C call that did not fail.

    Raises:
        OSError: the result is negative; errno names the error.
    """
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def system_call(number: int, *arguments: int | bytes | None) -> int:
    """Makes a system call by its number. Integers are passed in full width; bytes and None as
    pointers.

    Raises:
        OSError: the kernel refuses.
    """
    words = [ctypes.c_ulong(word) if isinstance(word, int) else word for word in arguments]
    return checked(_libc.syscall(ctypes.c_long(number), *words))


def prctl(option: int, value: int) -> int:
    return checked(_libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0))


def unshare(flags: int) -> None:
    checked(_libc.unshare(ctypes.c_int(flags)))


def setns(handle: int, flag: int) -> None:
    """Moves the calling thread into the namespace behind a file descriptor.

    Raises:
        OSError: the kernel refuses.
    """
    checked(_libc.setns(ctypes.c_int(handle), ctypes.c_int(flag)))


def mount(source: str, target: str, kind: str, flags: int) -> None:
    checked(
        _libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), None)
    )


def drop_capabilities() -> None:
    """Drops every capability of the process and of all that it starts, in its user namespace
    too."""
    version_3 = (ctypes.c_uint32 * 2)(0x20080522, 0)
    sets = (ctypes.c_uint32 * 6)()
    checked(_libc.capget(version_3, sets))
    # Only a process with capabilities may change the bounding set.
    if any(sets):
        for capability in range(64):
            try:
                prctl(PR_CAPBSET_DROP, capability)
            except OSError:
                break  # the kernel knows no more
    checked(_libc.capset(version_3, (ctypes.c_uint32 * 6)()))


def signal_name(number: int) -> str:
    """Returns the name of a signal, such as SIGSEGV; "signal 40" for a real-time signal, which has
    no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
