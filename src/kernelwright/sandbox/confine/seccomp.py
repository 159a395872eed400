"""A filter over system calls: calls that no kernel needs and that escapes use are refused with
EPERM.

The filter is classic BPF, as seccomp(2) takes it. It holds for the guest and all that it starts.
"""

import ctypes
import errno
import struct

from kernelwright.sandbox.confine import kernel

_REFUSED: dict[str, tuple[int, int | None]] = {  # name -> number on x86_64, on aarch64
    # other processes' memory and descriptors
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440),
    # parts of the kernel that many escapes went through
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "personality": (135, 92),
    "fanotify_init": (300, 262),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "modify_ldt": (154, None),
    # namespaces and mounts
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    # the machine
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "settimeofday": (164, 170),
    "adjtimex": (159, 171),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "ioperm": (173, None),
    "iopl": (172, None),
    # services of the host listen on sockets that are files, which no namespace hides
    "connect": (42, 203),
    # a filter of the candidate's own could answer in the kernel's name; rules of its own would
    # hold for the next candidate
    "seccomp": (317, 277),
    "landlock_create_ruleset": (444, 444),
    "landlock_add_rule": (445, 445),
    "landlock_restrict_self": (446, 446),
    # attributes of files, which Landlock does not cover
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "setxattrat": (463, 463),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
    # what others do to their files
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
    # memory that nobody can look at
    "memfd_secret": (447, 447),
}
_REFUSED_ON_GPU: dict[str, tuple[int, int | None]] = {
    # a guest on a GPU lives on: limits, timers and priorities would be the next candidate's too
    "setrlimit": (160, 164),
    "setitimer": (38, 103),
    "alarm": (37, None),
    "timer_create": (222, 107),
    "setpriority": (141, 140),
}
_SIGNALS: dict[str, tuple[int, int]] = {
    # by the number of a process, the first argument
    "kill": (62, 129),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
}
_SIGNALS_TO_ANY: dict[str, tuple[int, int]] = {
    "tkill": (200, 130),
    "pidfd_send_signal": (424, 424),
}
_MACHINES = ("x86_64", "aarch64")
_AUDIT_ARCH = (0xC000003E, 0xC00000B7)
_CLONE, _CLONE3, _PRCTL, _SOCKET = (56, 220), (435, 435), (157, 167), (41, 198)
_PRLIMIT, _SOCKETPAIR = (302, 261), (53, 199)
_NOT_STREAMS = 0b110
"""Bits of the type of a socket: datagrams have 2, raw sockets 3, sequences of packets 5."""
_X32_BIT = 0x40000000

# clone's flags for mount, cgroup, UTS, IPC, user, PID, network; and CLONE_PARENT, which would make
# the new process a child of the fork server
_REFUSED_FLAGS = 0x7E020000 | 0x8000
_PR_SET_SECCOMP = 22
_AF_UNIX, _AF_NETLINK = 1, 16

# linux/bpf_common.h, linux/seccomp.h
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _REFUSE, _UNKNOWN = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
# offsets in struct seccomp_data; arguments have two halves of 4 bytes, the lower one first
_NUMBER, _ARCHITECTURE = 0, 4
_FIRST_ARGUMENT, _SECOND_ARGUMENT, _THIRD_ARGUMENT = 16, 24, 32
_SET_MODE_FILTER, _ALL_THREADS, _WITHOUT_SPECULATION_GUARD = 1, 1, 4


def install(*, on_gpu: bool, own_pid: int | None = None) -> None:
    """Refuses the calls for the calling process from here on; needs no_new_privs.

    Args:
        on_gpu: CUDA's driver makes local sockets, so those may be made. Nothing may connect.
        own_pid: signals may reach this process and its group alone; None: a PID namespace hides
            other processes already.

    Raises:
        OSError: the kernel has no seccomp, or the machine is neither x86_64 nor aarch64.
    """
    if kernel.MACHINE not in _MACHINES:
        raise OSError(errno.ENOSYS, f"no filter for {kernel.MACHINE}")
    machine = _MACHINES.index(kernel.MACHINE)
    text = instructions(machine, on_gpu=on_gpu, own_pid=own_pid)
    buffer = ctypes.create_string_buffer(text, len(text))
    program = struct.pack("HP", len(text) // 8, ctypes.addressof(buffer))  # struct sock_fprog
    flags = _ALL_THREADS | _WITHOUT_SPECULATION_GUARD
    number = _REFUSED["seccomp"][machine]
    assert number is not None
    kernel.system_call(number, _SET_MODE_FILTER, flags, program)


def instructions(machine: int, *, on_gpu: bool, own_pid: int | None = None) -> bytes:
    """Returns the filter as struct sock_filter[].

    Each instruction is (code, jump if true, jump if false, operand), and jumps count the
    instructions that are skipped.

    Args:
        machine: 0 is x86_64, 1 is aarch64.
    """
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, _AUDIT_ARCH[machine]),
        (_RETURN, 0, 0, _REFUSE),
        (_LOAD, 0, 0, _NUMBER),
    ]
    # The x32 interface has numbers of its own for the same calls, which the list would miss.
    if machine == 0:
        program += [(_AT_LEAST, 0, 1, _X32_BIT), (_RETURN, 0, 0, _REFUSE)]
    refused = _REFUSED | (_REFUSED_ON_GPU if on_gpu else {})
    refused |= _SIGNALS_TO_ANY if own_pid is not None else {}
    for numbers in refused.values():
        if (number := numbers[machine]) is not None:
            program += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _REFUSE)]
    # The flags of clone3 lie in memory, which a filter cannot read. With ENOSYS, glibc and musl
    # fall back to clone.
    program += [(_EQUAL, 0, 1, _CLONE3[machine]), (_RETURN, 0, 0, _UNKNOWN)]
    program += _by_first_argument(_CLONE[machine], [(_ANY_BIT, 0, 1, _REFUSED_FLAGS)])
    program += _by_first_argument(_PRCTL[machine], [(_EQUAL, 0, 1, _PR_SET_SECCOMP)])
    if on_gpu:
        program += _asking_only(_PRLIMIT[machine])
    else:  # others than streams send to sockets that are files, without a connection
        streams = [(_LOAD, 0, 0, _SECOND_ARGUMENT), (_ANY_BIT, 0, 1, _NOT_STREAMS)]
        program += _by_first_argument(_SOCKETPAIR[machine], streams)
    if own_pid is not None:
        for kinds in _SIGNALS.values():  # 0 is the caller's own group
            tests = [(_EQUAL, 2, 0, own_pid), (_EQUAL, 1, 0, 0)]
            program += _by_first_argument(kinds[machine], tests)
    allowed = (_AF_UNIX, _AF_NETLINK) if on_gpu else ()
    tests = [(_EQUAL, len(allowed) - i, 0, family) for i, family in enumerate(allowed)]
    program += _by_first_argument(_SOCKET[machine], tests)
    program.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def _asking_only(number: int) -> list[tuple[int, int, int, int]]:
    """Returns instructions that let prlimit64 read limits only: its third argument, the address of
    new limits, must be 0."""
    body = [
        (_LOAD, 0, 0, _THIRD_ARGUMENT),
        (_EQUAL, 0, 2, 0),
        (_LOAD, 0, 0, _THIRD_ARGUMENT + 4),
        (_EQUAL, 1, 0, 0),
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return [(_EQUAL, 0, len(body), number), *body]


def _by_first_argument(
    number: int, tests: list[tuple[int, int, int, int]]
) -> list[tuple[int, int, int, int]]:
    """Returns instructions for one call: `tests` jump over the refusal that follows them, or fall
    into it."""
    body = [
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        *tests,
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return [(_EQUAL, 0, len(body), number), *body]
