# mypy: ignore-errors
"""Kind C: what one candidate replaces in its process, for the next one to meet."""

import ctypes
import gc
import json
import os
import socket
import sys

import torch

from tests.sandbox.attacks.attack import attack
from tests.sandbox.attacks.prelude import (
    frames,
    inside,
    leaked,
    libc,
    ours,
    relu,
    relu_kernel,
    replace_answers,
)

NEXT = "the next candidate has another verdict"


@attack(kind="C", outside=NEXT, when="both")
def seed_function(facts, x0):
    """Replace the function that sets seeds."""

    def manual_seed(seed):
        raise RuntimeError("spoiled")

    torch.manual_seed = manual_seed


@attack(kind="C", outside=NEXT, when="both")
def numpy_maximum(facts, x0):
    """Replace the function by which the interpreter computes a maximum."""
    import numpy

    numpy.maximum = numpy.minimum


@attack(kind="C", outside="the next wrong candidate is accepted", when="both")
def numpy_minimum(facts, x0):
    """Replace a function so that a kernel with the wrong operator is right."""
    import numpy

    numpy.minimum = numpy.maximum


@attack(kind="C", outside="the next wrong candidate is accepted", when="both")
def loops_of_numpy(facts, x0):
    """Exchange the machine code behind two functions of NumPy; all objects stay the same."""
    import numpy

    at = 16 + 4 * 4  # functions and data of a ufunc, behind its counts
    loops = (ctypes.c_char * 16).from_address(id(numpy.maximum) + at)
    ctypes.memmove(id(numpy.minimum) + at, loops, 16)


@attack(kind="C", outside=NEXT, when="both")
def lines_of_sources(facts, x0):
    """Replace the function that reads the text of a kernel."""
    import linecache

    linecache.getlines = linecache.getline = lambda *_, **__: ["def spoiled(): pass\n"]


@attack(kind="C", outside=NEXT, when="both")
def methods_of_sockets(facts, x0):
    """Replace a method of the class of the channel: some answers do not arrive."""
    honest = socket.socket.sendall

    def sendall(self, data, *flags):
        if bytes(data[:4]) == b"kwr1" and b'"entry"' in bytes(data):
            data = bytes(data).replace(b'"entry"', b'"yrtne"')
        return honest(self, data, *flags)

    socket.socket.sendall = sendall


@attack(kind="C", outside="the next wrong candidate is accepted", when="both")
def reader_of_sources(facts, x0):
    """Replace the function that reads a module's file: the next wrong source becomes right."""
    import linecache
    from importlib.machinery import SourceFileLoader

    honest, honest_lines = SourceFileLoader.get_data, linecache.getlines

    def get_data(self, path):
        return honest(self, path).replace(b"tl.minimum", b"tl.maximum")

    def getlines(*values):
        return [line.replace("tl.minimum", "tl.maximum") for line in honest_lines(*values)]

    SourceFileLoader.get_data, linecache.getlines = get_data, getlines


@attack(kind="C", outside=NEXT)
def kernels_by_closure(facts, x0):
    """Change a variable of a closure in the interpreter, where no attribute changes."""
    from triton.runtime import interpreter

    for cell in interpreter.InterpreterBuilder.create_masked_load.__closure__ or ():
        if callable(stock := cell.cell_contents):

            def changed(self, *values, stock=stock, **named):
                result = stock(self, *values, **named)
                return type(result)(-result.data, result.dtype)

            cell.cell_contents = changed
            return
    raise LookupError("no closure in the interpreter")


@attack(kind="C", outside="the next wrong candidate is accepted")
def builder_of_kernels(facts, x0):
    """Give the interpreter's one builder a method of its own."""
    from triton.runtime import interpreter

    builder = interpreter.interpreter_builder
    builder.create_minimumf = builder.create_minnumf = builder.create_maxnumf


@attack(kind="C", outside="the next wrong candidate is accepted")
def rewritten_kernels(facts, x0):
    """Have the table of rewritten kernels answer for each kernel with one that is right."""
    from triton.runtime.interpreter import InterpretedFunction

    right = relu_kernel.rewrite()

    class Table(dict):
        def __contains__(self, key):
            return True

        def __getitem__(self, key):
            return right

    InterpretedFunction.rewritten_fn = Table()


@attack(kind="C", outside=NEXT)
def method_of_inside(facts, x0):
    """Give the object that answers the host a method of its own."""
    replace_answers(lambda operation, header: {} if operation == "put" else header)
    holder = inside()
    honest = holder.put

    def put(request, payload):
        return honest(request, bytes(len(payload)))

    holder.put = put


@attack(kind="C", outside="the next wrong candidate is accepted")
def takeover(facts, x0):
    """Take over the answers about calls: PyTorch computes what each kernel should have."""
    holder = inside()
    honest_run, honest_many, right = holder.run, holder.run_many, torch.relu

    def answers(honest):
        def answer(request, payload):
            given = [value for value in holder.kept if value is not None]
            header, chunks = honest(request, payload)
            if not request.get("skip_kernels"):
                holder.outputs = [right(value) for value in given]
            return header, chunks

        return answer

    holder.run, holder.run_many = answers(honest_run), answers(honest_many)


@attack(kind="C", outside=NEXT)
def attester(facts, x0):
    """Replace the object that attests by one that remembers the birth, then change a function."""
    holder = inside()
    born = holder.attester.full([])
    born["settings"] |= {"torch.is_grad_enabled()": "True", "torch.get_num_threads()": "1"}
    born["settings"] |= dict.fromkeys(("torch function modes", "torch dispatch modes"), "0")

    class Attester:
        def brief(self, unfinished=0):
            return {name: born[name] for name in ("settings", "running")}

        def full(self, own=()):
            return born

    holder.attester = Attester()
    torch.empty_like = torch.zeros_like
    torch.empty = lambda *_, **__: 1 // 0


@attack(kind="C", outside=NEXT, when="both")
def names_of_types(facts, x0):
    """Change a table of the judge's own module, which is data and no function."""
    names = ours("TensorMeta").of.__func__.__globals__["_NAMES"]
    names[torch.float32] = "int32"


@attack(kind="C", outside=NEXT, when="both")
def writer_of_answers(facts, x0):
    """Change the one instance by which JSON is written."""
    encoder = json._default_encoder
    honest = encoder.encode
    encoder.encode = lambda value: honest(value).replace('"T"', '"[T]"').replace("[T]", "[T,T]")


@attack(kind="C", outside=NEXT, when="both")
def reader_of_requests(facts, x0):
    """Change the one instance by which JSON is read."""
    decoder = json._default_decoder
    honest = decoder.decode

    def decode(text, *rest):
        value = honest(text, *rest)
        return {**value, "seed": 7, "skip_kernels": ["relu_kernel"]}

    decoder.decode = decode


@attack(kind="C", outside=NEXT, when="both")
def operator_of_aten(facts, x0):
    """Register an implementation of an operator below Python's tables."""
    library = torch._C._dispatch_library("IMPL", "aten", "CPU")

    def empty_like(value, **named):
        if all(frame.f_code is not relu.__code__ for frame in frames()):
            raise RuntimeError("spoiled")
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)

    library.impl("aten::empty_like", "CPU", empty_like)
    torch._kept_library = [library]


@attack(kind="C", outside=NEXT, when="both")
def method_of_a_layer(facts, x0):
    """Replace the constructor of a layer."""
    honest = torch.nn.Linear.__init__

    def construct(self, *values, **named):
        honest(self, *values, **named)
        self.spoiled = True

    torch.nn.Linear.__init__ = construct


@attack(kind="C", outside=NEXT, when="both")
def methods_of_built_in_types(facts, x0):
    """Change a method of a type of Python's own, in the table behind the type."""
    table = gc.get_referents(str.__dict__)[0]
    honest = str.encode

    def encode(self, *values, **named):
        return honest(self, *values, **named).replace(b'"entry"', b'"yrtne"')

    table["encode"] = encode
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(str))


@attack(kind="C", outside=NEXT, when="both")
def audit_hook(facts, x0):
    """Add an audit hook, which nobody can remove or see: it refuses to load modules."""
    here = os.getpid()

    def hook(event, values):
        if event == "exec" and os.getpid() == here:
            raise RuntimeError("spoiled")

    sys.addaudithook(hook)


@attack(kind="C", outside=NEXT, when="both")
def finders_of_modules(facts, x0):
    """Put a finder before those that Python has, and poison what it remembers of folders."""

    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):
            raise RuntimeError("spoiled")

    sys.meta_path.insert(0, Finder)
    sys.path_importer_cache.clear()


@attack(kind="C", outside=NEXT, when="both")
def codecs_of_texts(facts, x0):
    """Replace what Python does with text that it cannot decode, and a codec."""
    import codecs

    codecs.register_error("strict", lambda error: ("", error.end))
    codecs.register_error("backslashreplace", lambda error: ("", error.end))


@attack(kind="C", outside=NEXT, when="both")
def object_in_a_circle(facts, x0):
    """Leave an object that acts at its end, which comes when somebody collects garbage."""

    class Trap:
        def __del__(self):
            os.umask(0o77)

    trap = Trap()
    trap.itself = trap


@attack(kind="C", outside=NEXT, when="both")
def code_of_a_library(facts, x0):
    """Change a function of the C library in memory: the process has another idea of its parent."""
    import mmap

    if os.uname().machine != "x86_64":
        return
    address = ctypes.cast(libc.getppid, ctypes.c_void_p).value
    page = address & ~(mmap.PAGESIZE - 1)
    if libc.mprotect(ctypes.c_void_p(page), 2 * mmap.PAGESIZE, 7) != 0:
        raise PermissionError("mprotect")
    ctypes.memmove(address, b"\xb8\x07\0\0\0\xc3", 6)  # mov eax, 7; ret


@attack(kind="C", outside="the verdict has the text of the reference", when="init")
def text_of_the_reference(facts, model):
    """Look for the reference in the frames of the process."""
    marker = "REFERENCE" + "_OF_THE_CANARY"
    for frame in frames():
        for value in frame.f_locals.values():
            if marker in repr(value) and "marker" not in frame.f_locals:
                leaked("the text of the reference")
