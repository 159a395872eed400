# mypy: ignore-errors
"""A candidate that tells what it finds in its process. Its text follows that of `prelude`."""

import gc
import json
import os
import resource
import signal
import sys
import tempfile
import time
import zlib

import torch

from tests.sandbox.attacks.prelude import libc, scratch


def state_of_the_process():
    """Settings of the process and the kernel that a candidate may change, by name."""
    with open("/proc/self/status") as file:
        status = dict(line.split(":", 1) for line in file)
    limits = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]
    tables = [len(open(f"/proc/sysvipc/{name}").readlines()) for name in ("shm", "sem", "msg")]
    names = [n for n in os.listdir(scratch) if n != "out.log" and not n.startswith("cache")]
    return {
        "umask": status["Umask"],
        "blocked": status["SigBlk"],
        "ignored": status["SigIgn"],
        "threads": status["Threads"],
        "filters": status["Seccomp_filters"],
        "name": status["Name"],
        "processes": sum(map(str.isdigit, os.listdir("/proc"))),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "limits": [resource.getrlimit(limit) for limit in limits if limit != resource.RLIMIT_AS],
        "nice": os.nice(0),
        "cores": len(os.sched_getaffinity(0)),
        "policy": os.sched_getscheduler(0),
        "disk": libc.syscall(252, 1, 0),  # ioprio_get
        "timer": signal.getitimer(signal.ITIMER_REAL),
        "slack": libc.prctl(30, 0, 0, 0, 0),
        "dumpable": libc.prctl(3, 0, 0, 0, 0),
        "pages": libc.prctl(42, 0, 0, 0, 0),
        "oom": open("/proc/self/oom_score_adj").read(),
        "parent": libc.getppid() == 7,
        "system_v": tables,
        "scratch": sorted(names),
        "planted": os.path.exists(os.path.join(scratch, "cache", "SPOILED")),
        "temporary": tempfile.gettempdir() == scratch,
        "variables": sorted((k, v.startswith(scratch) or v) for k, v in os.environ.items()),
        **state_of_python(),
    }


def state_of_python():
    """Settings of Python, NumPy and PyTorch."""
    import atexit
    import codecs
    import decimal
    import linecache
    import locale
    import warnings

    import numpy

    smallest = sys.float_info.min
    functions = (
        torch.manual_seed, torch.nn.Linear.__init__, linecache.getlines, str.encode,
        numpy.maximum, numpy.minimum, json.loads, codecs.lookup_error("strict"),
    )  # fmt: skip
    return {
        "numpy": numpy.geterr(),
        "denormals": smallest / 2 > 0,
        "rounding": libc.fegetround(),
        "warnings": [filter[0] for filter in warnings.filters],
        "garbage": [gc.get_threshold(), gc.isenabled()],
        "switch": sys.getswitchinterval(),
        "digits": sys.get_int_max_str_digits(),
        "decimal": decimal.getcontext().prec,
        "locale": locale.setlocale(locale.LC_ALL),
        "zone": time.timezone,
        "at_exit": atexit._ncallbacks(),
        "finders": len(sys.meta_path),
        "functions": [function.__name__ for function in functions],
        "instances": [len(vars(each)) for each in (json._default_encoder, json._default_decoder)],
        "printing": torch._tensor_str.PRINT_OPTS.precision,
        "autograd": torch._C._is_multithreading_enabled(),
        "modules": torch.__future__.get_overwrite_module_params_on_conversion(),
        "warns": torch.is_warn_always_enabled(),
        "fills": torch.utils.deterministic.fill_uninitialized_memory,
        "marker": hasattr(torch, "_marker_of_the_last"),
    }


def short(value):
    """At most ten characters, for messages are cut."""
    text = str(value).strip()
    return text if len(text) <= 10 else f"{zlib.crc32(text.encode()):08x}"


def reported(kind):
    """Raise an exception whose text is the state."""
    state = {name: short(value) for name, value in state_of_the_process().items()}
    raise kind("STATE " + json.dumps(state, separators=(",", ":")))
