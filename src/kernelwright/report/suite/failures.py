"""Explains in words why a benchmark task has no kernel."""

import re

from kernelwright.core.delivered import form_of
from kernelwright.core.kinds.suites import CaseLine
from kernelwright.report import words

_NO_END = re.compile(r"no end within (?P<seconds>[\d.]+) s")
_KINDS = {
    "no_kernel": "No kernel was kept.",
    "memory": "The task did not fit into the GPU's memory.",
    "usage": "The task cannot be loaded or captured.",
    "infra": "The tool failed, so nothing is known about the task.",
}
_STAYS = {"compiled": "torch.compile is the best known.", "original": "PyTorch stays."}
"""The user's code without a kernel, by form."""
_OTHER = "The kernel was refused: {reason}."
"""A verdict on the kernel itself."""


def reason(case: CaseLine) -> str:
    """The reason why a case is not correct, in a few words and the same for many cases."""
    if malformed := case.get("malformed"):
        return f"The answer holds no candidate: {words.outcome(malformed)}."
    code = str(case["code"])
    outcome = words.outcome(code)
    return _KINDS.get(code, f"{outcome[:1].upper()}{outcome[1:]}.")


def meaning(case: CaseLine) -> str:
    """The sentence that explains the verdict on an answer; empty for an accepted answer, and where
    no answer was judged."""
    code = str(case["code"])
    is_judged = not (case["correct"] or case.get("malformed") or code in _KINDS)
    return words.meaning(code) if is_judged else ""


def why(case: CaseLine) -> str:
    """One or two sentences about a case that is not correct."""
    code, message = str(case["code"]), str(case["message"])
    if code == "infra" and (match := _NO_END.search(message)):
        return f"Not finished within {match['seconds']} s."
    if code == "infra" and "process died" in message:
        return "The process that worked on the task died."
    sentence = _KINDS.get(code, _OTHER.format(reason=words.outcome(code)))
    if code == "no_kernel":
        sentence += f" {_STAYS[form_of(case)]}"
    refused = [words.outcome(code) for code in case.get("rejected", {})]
    if code == "no_kernel" and refused:
        sentence += f" Kernels were refused because of: {', '.join(refused)}."
    return sentence


def raw(case: CaseLine) -> str:
    """The recorded text behind `why`: messages of the case and of its refused kernels."""
    refused = case.get("rejected", {}).items()
    return "\n".join([str(case["message"]), *(f"{code}: {text}" for code, text in refused)]).strip()
