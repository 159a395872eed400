"""Poses the calls of task files for the judge, in a process of its own that runs golden code.

    python -m kernelwright.bench.tritonbench.posing

reads a JSON object from each line, with the fields "name", "golden", "tail", "channel" and
"device". The answer lists the calls of the file's functions that the tests make (`pose_file`).

A call that can be posed has "reference", a text for the judge, and "adapter", which goes below a
prediction. A call that can be lowered has its program in "program". A call that cannot be posed has
the reason in "refused".
"""

import linecache
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import torch
from torch.utils import _pytree as pytree

from kernelwright.bench.serving import serve
from kernelwright.bench.tritonbench.forms import CallForm, Unposable, call_form, check_arguments
from kernelwright.core.record import Record
from kernelwright.core.text import digest
from kernelwright.data.called import FunctionModule
from kernelwright.programs.lowering.lower import Lowered, lower
from kernelwright.programs.reference import make_inputs, run
from kernelwright.programs.text import to_text
from kernelwright.timing.clock import gpu_lock

MAX_CALLS = 32
"""The most calls of a file that are recorded."""
MAX_REASON = 200

Space = dict[str, Any]


def pose_file(job: Record) -> Record:
    """The calls of a file, in the order of its tests.

    Args:
        job: the fields that the module names.

    Returns:
        {"calls": [...], "refused": the reason why the list is empty, or None}.
    """
    module = types.ModuleType(job["name"].removesuffix(".py"))
    calls: list[Record] = []
    # Processes that take times on the GPU wait meanwhile.
    lock = gpu_lock(shared=True) if _device(job) == "cuda" else nullcontext()
    with lock, _importable(module):
        failure = _record_calls(job, vars(module), calls)
    if calls:
        return {"calls": calls, "refused": None}
    return {"calls": calls, "refused": failure or "the tests call no function of the file"}


@contextmanager
def _importable(module: types.ModuleType) -> Iterator[None]:
    """A context in which tests can import their file by its name, unless another module has this
    name."""
    name = module.__name__
    if name in sys.modules:
        yield
        return
    sys.modules[name] = module
    try:
        yield
    finally:
        sys.modules.pop(name, None)


def _record_calls(job: Record, space: Space, calls: list[Record]) -> str | None:
    """Append the calls of a file to a list; return a text about a failure of its code, or None."""
    golden, tail = (_for_device(job[key], job) for key in ("golden", "tail"))
    try:
        _execute(golden, job["name"], space)
    except (Exception, SystemExit) as error:
        return f"the golden code fails: {_said(error)}"
    recorder = _Recorder(job, calls)
    for name in _called_names(space, tail):
        space[name] = recorder.replacing(name, space[name])
    try:
        _execute(tail, job["name"], space)
    except (Exception, SystemExit) as error:  # calls until then count
        return f"the tests fail: {_said(error)}"
    return None


def _for_device(text: str, job: Record) -> str:
    return on_device(text, _device(job))


def _device(job: Record) -> str:
    """The device on which the golden code runs: "cpu" or "cuda"."""
    # A program says nothing of devices, so functions of PyTorch need no GPU to be lowered.
    return "cpu" if job["channel"] == "T" else str(job["device"])


def on_device(text: str, device: str) -> str:
    """The text of a file for a device: without a GPU, "cuda" becomes "cpu"."""
    return text if device == "cuda" else text.replace("cuda", "cpu")


def _execute(text: str, name: str, space: Space) -> None:
    # Triton reads the source text of kernels, by the name of their file.
    path = f"<{digest(text)} of {name}>"
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    exec(compile(text, path, "exec"), space)


def _called_names(space: Space, tail: str) -> list[str]:
    """The names of the file's functions that its tests name. Classes and kernels are left out."""
    words = {word for code in _codes(compile(tail, "tail", "exec")) for word in code.co_names}
    return [
        name
        for name, value in space.items()
        if name in words and callable(value) and not isinstance(value, type)
        if isinstance(value, types.FunctionType | types.BuiltinFunctionType | types.MethodType)
        if getattr(value, "__module__", None) == space["__name__"] or _is_apply(value)
    ]


def _is_apply(value: Any) -> bool:
    """Whether the value is the `apply` of a class that computes gradients."""
    owner = getattr(value, "__self__", None)
    return isinstance(owner, type) and issubclass(owner, torch.autograd.Function)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code, and the codes of all functions in it."""
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _codes(const)


class _Recorder:
    """Replaces functions of a file: each outermost call is posed, and then made.

    Args:
        job: as for `pose_file`.
        calls: the list to which calls are appended.
    """

    def __init__(self, job: Record, calls: list[Record]) -> None:
        self._job, self._calls = job, calls
        self._is_inside = False
        self._alike: dict[tuple[object, ...], Record] = {}
        """Signature of a call -> the texts. Calls that differ only in values of tensors share their
        texts, because lowering takes seconds."""

    def replacing(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function that records its outermost calls and then calls a function of the file."""

        def recorded(*args: Any, **kwargs: Any) -> Any:
            if self._is_inside or len(self._calls) >= MAX_CALLS:
                return function(*args, **kwargs)
            self._is_inside = True
            try:
                self._calls.append({"function": name, **self._posed(name, function, args, kwargs)})
                return function(*args, **kwargs)
            finally:
                self._is_inside = False

        return recorded

    def _posed(
        self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Space
    ) -> Record:
        try:
            form, results = _form(name, function, args, kwargs)
        except Unposable as why:
            return {"refused": str(why)}
        except (Exception, SystemExit) as error:
            return {"refused": f"the golden call fails: {_said(error)}"}
        if form.signature not in self._alike:
            self._alike[form.signature] = self._texts(function, form, results, args, kwargs)
        return self._alike[form.signature]

    def _texts(
        self,
        function: Callable[..., Any],
        form: CallForm,
        results: list[torch.Tensor],
        args: tuple[Any, ...],
        kwargs: Space,
    ) -> Record:
        program, lowered, why = None, None, ""
        if self._job["channel"] == "T":
            try:
                lowered = lower(FunctionModule(function), *_copied((args, kwargs)))
                program = to_text(lowered.program)
                _check(run(lowered.program, make_inputs(lowered.program, 0)), results)
            except Exception as error:  # whatever the compiler cannot do: the code itself is posed
                why, program = _said(error), None
        answer = self._reference(form, lowered if program else None, results)
        return {"program": program, "not_lowered": why or None, **answer}

    def _reference(
        self, form: CallForm, lowered: Lowered | None, results: list[torch.Tensor]
    ) -> Record:
        """The texts for the judge: the program of the call, or the golden code if the call has no
        program."""
        if lowered is not None and (adapter := _adapter_of(lowered, form)) is not None:
            text = to_text(lowered.program)
            return {"reference": text, "adapter": adapter, "posed_as": "program"}
        adapter, why = form.own_adapter(), ""
        for name, fresh in (("function", True), ("scaled", False)):
            try:
                # The text keeps its own devices: the judge may have a GPU.
                text = f"{self._job['golden']}{adapter}{form.inputs(fresh=fresh)}"
                _check(_drawn_results(text, self._job), results)
                return {"reference": text, "adapter": adapter, "posed_as": name}
            except (Exception, SystemExit) as error:
                why = why or _said(error)
        return {"refused": f"the golden function fails on fresh inputs: {why}"}


def _drawn_results(text: str, job: Record) -> list[torch.Tensor]:
    """The results of a text's `fused_operator` on inputs of its `get_inputs`."""
    space: Space = {"__name__": "posed"}
    _execute(_for_device(text, job), "posed.py", space)
    torch.manual_seed(0)
    with torch.device(_device(job)):  # as the judge draws inputs
        inputs = space["get_inputs"]()
    return list(space["fused_operator"](*inputs))


def _check(drawn: list[torch.Tensor], recorded: list[torch.Tensor]) -> None:
    """Check that drawn inputs suit the function.

    Raises:
        Unposable: the results on drawn inputs are mostly NaN, and the recorded results are not.
    """
    if _nans(drawn) > 0.5 and _nans(recorded) < 0.5:
        raise Unposable("results on drawn inputs are not numbers")


def _nans(values: list[torch.Tensor]) -> float:
    shares = [v.isnan().double().mean().item() for v in values if v.is_floating_point()]
    return max((share for share in shares if share == share), default=0.0)


def _form(
    name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Space
) -> tuple[CallForm, list[torch.Tensor]]:
    """The form of a call, and its results. The call is made twice, under different seeds.

    Raises:
        Unposable: the two results differ, so the call draws random numbers; or as `call_form`.
    """
    check_arguments(args, kwargs)  # an object that a call changes would seem to be a random draw
    before = _copied((args, kwargs))
    answers = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        own_args, own_kwargs = _copied(before)
        result = function(*own_args, **own_kwargs)
        answers.append((result, _tensors((own_args, own_kwargs))))
    (result, after), (again, after_again) = answers
    if not _are_alike([*_tensors(result), *after], [*_tensors(again), *after_again]):
        raise Unposable("the call draws random numbers")
    changed = [
        i for i, (a, b) in enumerate(zip(_tensors(before), after, strict=True)) if not _same(a, b)
    ]
    own_args, own_kwargs = before
    return call_form(name, own_args, own_kwargs, result, changed), _tensors(result)


def _copied(value: Any) -> Any:
    def copied(leaf: Any) -> Any:
        return leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf

    return pytree.tree_map(copied, value)


def _tensors(value: Any) -> list[torch.Tensor]:
    leaves = pytree.tree_leaves(value)
    return [leaf.detach() for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _same(left: torch.Tensor, right: torch.Tensor) -> bool:
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    if not (left.is_floating_point() or left.is_complex()):
        return torch.equal(left, right)
    return torch.allclose(left, right, rtol=0.0, atol=0.0, equal_nan=True)


def _are_alike(left: list[torch.Tensor], right: list[torch.Tensor]) -> bool:
    """Whether two lists of results are equal, apart from rounding in another order of summation."""

    def alike(a: torch.Tensor, b: torch.Tensor) -> bool:
        if a.shape != b.shape or not (a.is_floating_point() or a.is_complex()):
            return a.shape == b.shape and torch.equal(a, b)
        return torch.allclose(a, b, rtol=1e-3, atol=1e-3, equal_nan=True)

    return len(left) == len(right) and all(map(alike, left, right))


def _adapter_of(lowered: Lowered, form: CallForm) -> str | None:
    """The adapter that calls a prediction with the inputs of the call's program. None if prediction
    and program differ in more than the order of inputs and results."""
    sources, program = lowered.sources, lowered.program
    places = [source.position for source in sources]
    changes = (lowered.mutations, lowered.input_mutations, lowered.carried_outputs, form.changed)
    if any(changes) or sorted(places) != sorted(form.positions):
        return None
    pairs = zip(sources, program.inputs, strict=True)
    if any(s.kind != "user" or s.dtype != value.type.dtype for s, value in pairs):
        return None
    leaf_of: dict[Any, int] = {}
    for leaf, (kind, output) in enumerate(lowered.user_outputs):
        if kind == "output":
            leaf_of.setdefault(output, leaf)
    results = dict(zip(form.leaves, form.results, strict=True))
    wanted = [results.get(leaf_of.get(number, -1)) for number in range(len(program.outputs))]
    order = [form.positions.index(place) for place in places]
    texts = [text for text in wanted if text is not None]
    return form.adapter(order, texts) if len(texts) == len(wanted) else None


def _said(error: BaseException | None) -> str:
    with suppress(Exception):
        return f"{type(error).__name__}: {error}".split("\n", 1)[0][:MAX_REASON]
    return type(error).__name__


if __name__ == "__main__":
    torch.set_num_threads(1)
    serve(pose_file)
