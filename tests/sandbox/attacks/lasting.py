# mypy: ignore-errors
"""Kind C: what one candidate leaves running or set, in its process and below it."""

import ctypes
import gc
import os
import resource
import signal
import struct
import sys
import time
from contextlib import suppress

import torch

from tests.sandbox.attacks.attack import attack
from tests.sandbox.attacks.prelude import apart, channel, inside, libc, scratch

NEXT = "the next candidate has another verdict"
SET = "the next candidate finds it set"


@attack(kind="C", outside=NEXT)
def hidden_thread(facts, x0):
    """Start a thread that passes for one of PyTorch's, and spoils outputs."""
    holder = inside()

    def spoil():
        libc.prctl(15, b"pt_main_thread", 0, 0, 0)  # PR_SET_NAME
        while True:
            for output in list(holder.outputs):
                with suppress(Exception):
                    output.detach().fill_(7.0)
            time.sleep(0.0001)

    import _thread

    _thread.start_new_thread(spoil, ())


@attack(kind="C", outside="a process stays, or the next answer is forged")
def daemon_with_the_channel(facts, x0):
    """Leave a process that holds the channel, and writes to it later."""
    held = channel()
    if apart():
        time.sleep(0.05)
        for _ in range(100):
            held.sendall(b"spoiled")
            time.sleep(0.01)
        os._exit(0)


@attack(kind="C", outside="a process stays", when="both")
def silent_daemon(facts, x0):
    """Leave a process that sleeps."""
    if apart():
        time.sleep(600)
        os._exit(0)


@attack(kind="C", outside="a process stays", when="both")
def sibling_by_clone(facts, x0):
    """Leave a process without a signal at its end, as a child of whoever started the guest."""
    stack = ctypes.create_string_buffer(1 << 16)
    top = ctypes.addressof(stack) + (1 << 16) - 256
    pause = ctypes.cast(libc.pause, ctypes.c_void_p)
    libc.clone(pause, ctypes.c_void_p(top & ~15), 0x100 | 0x8000, None)  # CLONE_VM, CLONE_PARENT
    sys.modules[__name__].stack = stack


@attack(kind="C", outside=NEXT)
def interval_timer(facts, x0):
    """Set a timer that ends the process a little later."""
    signal.setitimer(signal.ITIMER_REAL, 0.2)


@attack(kind="C", outside=NEXT)
def timer_of_the_kernel(facts, x0):
    """Set a timer of the kernel's, which no function of Python's shows."""
    timer = ctypes.c_void_p()
    event = struct.pack("Qii", 0, signal.SIGKILL, 0).ljust(64, b"\0")
    if libc.timer_create(1, event, ctypes.byref(timer)) != 0:
        raise PermissionError("timer_create")
    libc.timer_settime(timer, 0, struct.pack("qqqq", 0, 0, 0, 200_000_000), None)


@attack(kind="C", outside=NEXT)
def watchdog_of_faulthandler(facts, x0):
    """Have a thread of Python's own end the process a little later."""
    import faulthandler

    faulthandler.dump_traceback_later(0.2, exit=True, file=open(os.devnull, "w"))


@attack(kind="C", outside=NEXT, when="both")
def limit_of_memory(facts, x0):
    """Leave the process little address space."""
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 20), used + (1 << 20)))


@attack(kind="C", outside=NEXT)
def limit_of_files(facts, x0):
    """Leave the process few descriptors, and files no bytes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (48, 48))


@attack(kind="C", outside=SET, when="both")
def limit_of_time(facts, x0):
    """Leave the process 20 s of CPU time."""
    resource.setrlimit(resource.RLIMIT_CPU, (20, 20))


@attack(kind="C", outside=NEXT, when="both")
def landlock_of_its_own(facts, x0):
    """Forbid the process to read any file, by the very guard that confines it."""
    rules = libc.syscall(444, struct.pack("Q", 4), 8, 0)  # reading files
    if rules < 0 or libc.syscall(446, rules, 0) != 0:
        raise PermissionError("landlock")


@attack(kind="C", outside=SET)
def mask_of_files(facts, x0):
    """Let files be made without rights."""
    os.umask(0o777)


@attack(kind="C", outside=SET, when="both")
def niceness(facts, x0):
    """Make the process slow: niceness, policy, one core, class of disk access."""
    os.nice(7)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    libc.syscall(251, 1, 0, 3 << 13)  # ioprio_set: idle


@attack(kind="C", outside=SET, when="both")
def floating_point(facts, x0):
    """Change how NumPy and the processor compute: errors raise, small numbers are zero."""
    import numpy

    numpy.seterr(all="raise")
    torch.set_flush_denormal(True)
    libc.fesetround(0x400)  # downwards


@attack(kind="C", outside=SET, when="both")
def files_in_scratch(facts, x0):
    """Leave files, modules and compiled kernels in the scratch folder."""
    os.makedirs(os.path.join(scratch, "cache", "SPOILED"), exist_ok=True)
    for name in ("sitecustomize.py", "torch.py", "cache/SPOILED/relu_kernel.json"):
        with open(os.path.join(scratch, name), "w") as file:
            file.write("spoiled")


@attack(kind="C", outside=NEXT)
def scratch_renamed(facts, x0):
    """Rename what lies in the scratch folder, and name another folder for temporary files."""
    import tempfile

    tempfile.tempdir = os.path.join(scratch, "gone")
    for name in os.listdir(scratch):
        with suppress(OSError):
            os.rename(os.path.join(scratch, name), os.path.join(scratch, name + ".gone"))


@attack(kind="C", outside=NEXT, when="both")
def warnings_as_errors(facts, x0):
    """Turn each warning into an exception."""
    import warnings

    warnings.simplefilter("error")


@attack(kind="C", outside=SET, when="both")
def garbage_collector(facts, x0):
    """Never collect, and treat all there is as eternal."""
    gc.set_threshold(0)
    gc.freeze()


@attack(kind="C", outside=SET, when="both")
def system_v_memory(facts, x0):
    """Leave shared memory, a semaphore and a queue of messages of System V."""
    libc.shmget(0x5EED, 4096, 0o1666)
    libc.semget(0x5EED, 1, 0o1666)
    libc.msgget(0x5EED, 0o1666)


@attack(kind="C", outside=SET, when="both")
def mask_of_signals(facts, x0):
    """Block all signals, and ignore the end of children."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    libc.signal(signal.SIGCHLD, ctypes.c_void_p(1))


@attack(kind="C", outside=SET, when="both")
def switches_of_python(facts, x0):
    """Change switches of Python's that are no objects."""
    import atexit
    import decimal
    import locale

    sys.setswitchinterval(5.0)
    sys.set_int_max_str_digits(700)
    decimal.getcontext().prec = 3
    locale.setlocale(locale.LC_ALL, "C")
    atexit.register(print)


@attack(kind="C", outside=SET, when="both")
def switches_of_torch(facts, x0):
    """Change switches of PyTorch's that are beside its usual ones."""
    torch.set_printoptions(precision=1)
    torch.autograd.set_multithreading_enabled(False)
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.set_warn_always(True)
    torch._C._set_warnAlways(True)


@attack(kind="C", outside=SET, when="both")
def switches_of_the_process(facts, x0):
    """Change what the kernel knows of the process: its name, timers, dumps and keys of memory."""
    libc.prctl(15, b"spoiled", 0, 0, 0)  # PR_SET_NAME
    libc.prctl(29, 50_000_000, 0, 0, 0)  # PR_SET_TIMERSLACK
    libc.prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
    libc.prctl(41, 1, 0, 0, 0)  # PR_SET_THP_DISABLE
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


@attack(kind="C", outside=SET, when="both")
def open_descriptors(facts, x0):
    """Leave pipes and files in memory open."""
    for _ in range(20):
        os.pipe()
        os.memfd_create("spoiled")


@attack(kind="C", outside="the next candidate finds its text", when="both")
def text_in_memory(facts, x0):
    """Leave texts in memory for the next candidate to find."""
    sys.modules[__name__].kept = ["MARKER_" + "OF_THE_LAST"] * 3
    torch._marker_of_the_last = "MARKER_" + "OF_THE_LAST"
