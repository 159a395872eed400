"""Translates short names in records into words that a reader of the page understands."""

import re
from collections.abc import Iterable

from kernelwright.core.delivered import COMPUTED_BY
from kernelwright.core.reasons import REASONS
from kernelwright.core.verdict import INTERPRETER, Code

OUTCOMES = {
    "ok": "right",
    "syntax_error": "not valid Python",
    "missing_entry": "the expected function is missing",
    "no_kernel": "no Triton kernel in it",
    "forbidden": "breaks a rule for kernel sources",
    "load_error": "fails while it is imported",
    "compile_error": "does not compile",
    "runtime_error": "raises an error when it is called",
    "crashed": "crashes its process",
    "timeout": "takes too long",
    "out_of_memory": "runs out of memory",
    "out_of_bounds": "reads or writes outside its tensors",
    "malformed": "answers outside the protocol",
    "wrong_structure": "returns other shapes, types or layouts",
    "wrong_values": "wrong values",
    "not_finite": "NaN or infinity where PyTorch has numbers",
    "unwritten": "leaves part of its output unwritten",
    "state_differs": "leaves other buffers than PyTorch does",
    "input_changed": "changes its inputs",
    "aliased": "returns memory of its inputs",
    "not_launched": "launches none of its kernels",
    "decoy": "a kernel has no effect on the result",
    "library_compute": "PyTorch computes in pure mode",
    "tampered": "replaces functions of PyTorch, Triton or Python",
    "settings_changed": "changes settings of the process",
    "left_running": "leaves work running",
    "implausible_time": "its reported times cannot be true",
    "empty": "the answer is empty",
    "no_code": "no code in the answer",
    "cut_off": "cut off before its end",
    "out_of_time": "cut off by the clock",
    "unmergeable": "cannot be merged into one file with others",
    "memory": "did not fit into the GPU's memory",
    "infra": "could not be judged: a failure of the tool",
    "usage": "the task cannot be loaded",
}
"""Codes of verdicts, of unreadable answers and of benchmark cases."""

ANSWER = "answer: "

FORMS = {
    "kernels": "own kernels",
    "compiled_kernels": "own kernels inside torch.compile",
    "compiled": "unchanged: torch.compile is the best known",
    "original": "unchanged: PyTorch stays",
}
"""The user's code, by the form in records."""

CHECKS = {
    "static rules": "The source follows the static rules.",
    "compiles for sm_90": "The kernels compile for NVIDIA Hopper GPUs (sm_90).",
    "loads": "The source imports without an error.",
    "outputs": "Every output is within the allowed error.",
    "inputs unchanged": "No call changes its inputs.",
    "no aliasing": "No output shares memory with an input.",
    "own kernels launched": "Every call launches the generated kernels.",
    "settings unchanged": "No call changes settings of the process.",
    "nothing left running": "No call leaves work running.",
    "state": "Buffers and changed parameters after a call are PyTorch's.",
    "calls in a row": "Calls in a row of one instance are right, also after new weights.",
    "no library compute": "PyTorch computes nothing itself (pure mode).",
    "outputs depend on each own kernel": "Without any one of the kernels, the outputs are wrong.",
    "strided inputs": "Inputs with gaps in memory give right outputs too.",
    "train mode": "In train mode the outputs are right too.",
    "eval mode": "In eval mode the outputs are right too.",
    "process unchanged": "The process is unchanged after all calls.",
    "times plausible": "The times agree with the host's clock and the hardware's limits.",
    "timed outputs": "The outputs of timed calls are right too.",
}

GUARDS = {
    "userns": "no rights outside (user namespace)",
    "netns": "no network",
    "ipcns": "no shared memory of others",
    "pidns": "no signals to other processes",
    "procfs": "no view of other processes",
    "pdeathsig": "ends with the judge",
    "nonewprivs": "no new rights",
    "rlimits": "limits for CPU time, files and memory",
    "landlock": "limited file access (Landlock)",
    "nocaps": "no capabilities",
    "seccomp": "limited system calls (seccomp)",
    "signals": "no signal to a process of others",
}

FAMILIES = {
    "plain": "ordinary values",
    "part changed": "a small part of the values changed",
    "permuted": "the values in another order",
    "swapped": "two inputs exchanged",
    "scaled": "values ten times as large",
    "shifted": "values shifted away from zero",
    "far": "values far from zero, relative to their spread",
    "spikes": "a few very large values",
    "heavy_tail": "values with a heavy tail",
    "thresholds": "values where activations change their formula",
    "last_tile": "large values at the end alone",
    "negated": "values with the other sign",
    "rounded": "rounded values, so that many are equal",
    "flat_rows": "rows of equal values",
    "tiny": "very small values",
    "large": "large values",
    "extreme": "values at the end of the type's range",
    "special": "NaN and infinities among the values",
}

_CASE = re.compile(
    r"(?P<variant>.*)/(?P<family>[^/]*)/seed \d+/"
    r"(?:(?:nan|finite) poison|as a user calls|in inference mode)"
)
_IN_CASE = re.compile(r"\[case (?P<row>one of \d+ in a row, the first )?(?P<name>[^\]]*)\]")
_SHAPES = re.compile(r"(?:\d+(?:x\d+)*|scalar)(?: (?:\d+(?:x\d+)*|scalar))*")
_HINT = re.compile(r"line \d+: ")
_TIME_OVER = re.compile(r"(?P<seconds>[\d.]+) s were over: some cases were not run")


def outcome(code: str) -> str:
    """A code in words; an unknown one without its underscores."""
    return OUTCOMES.get(code, code.replace("_", " "))


def answer(reason: str) -> str:
    """As `outcome`, for codes that may begin with "answer: ": such an answer holds no candidate."""
    code = reason.removeprefix(ANSWER)
    return reason[: len(reason) - len(code)] + outcome(code)


def form(name: str) -> str:
    """The form of a result in words."""
    return FORMS[name]


def computed_by(name: str) -> str:
    """The code that computes a result of a form, in a few words."""
    return COMPUTED_BY[name]


def meaning(code: str) -> str:
    """The sentence that explains a verdict's code; empty for other codes."""
    return REASONS[Code(code)].meaning if code in list(Code) else ""


def check(name: str) -> str:
    return CHECKS.get(name, name)


def guard(name: str) -> str:
    return GUARDS.get(name, name)


def device(name: str) -> str:
    return "CPU (Triton's interpreter)" if name == INTERPRETER else name


def case(name: str) -> str:
    """ "base/plain/seed 7/nan poison" -> "the sizes given: ordinary values"."""
    match = _CASE.fullmatch(name)
    if match is None:
        return name
    variant, family = match["variant"], match["family"]
    if variant == "base":
        where = "the sizes given"
    elif _SHAPES.fullmatch(variant):
        where = "inputs of " + ", ".join(variant.split(" "))
    else:
        where = variant
    return f"{where}: {FAMILIES.get(family, family.replace('_', ' '))}"


def message(text: str) -> str:
    """The judge's message with the name of its case, "[case ...]", in words."""
    return _IN_CASE.sub(lambda m: f"({m['row'] or ''}{case(m['name'])})", text)


def notes(advice: Iterable[str]) -> list[str]:
    """The judge's remarks on optimized.py, without hints on how to write the source.

    That source is generated, so its reader has nothing to change there.
    """
    return [
        _TIME_OVER.sub(r"Judging stopped after \g<seconds> s, so some cases were not run.", item)
        for item in advice
        if not _HINT.match(item)
    ]
