"""The meaning of each reason code and the remedy: one text for the CLI, errors and docs."""

from dataclasses import dataclass

from kernelwright.core.verdict import Code


@dataclass(frozen=True, slots=True)
class CodeReason:
    """The texts about one reason code."""

    meaning: str
    remedy: str


REASONS: dict[Code, CodeReason] = {
    Code.OK: CodeReason(
        "The candidate is right in every case, and passed every probe.",
        "`cases` and `checks` list what was tried, and `advice` lists faults that do not reject.",
    ),
    Code.SYNTAX_ERROR: CodeReason(
        "The source is not Python.",
        "See that the file runs under `python -m py_compile`.",
    ),
    Code.MISSING_ENTRY: CodeReason(
        "Neither `fused_operator` nor `ModelNew` is defined, or the wrong one of the two.",
        "Define `ModelNew` for a `Model`, or `fused_operator` for a flat program.",
    ),
    Code.NO_KERNEL: CodeReason(
        "The source has no `@triton.jit` function.",
        "Write the computation in Triton.",
    ),
    Code.FORBIDDEN: CodeReason(
        "A static rule is broken: the source uses something that no kernel needs.",
        "The message names the rule, the line and the remedy.",
    ),
    Code.LOAD_ERROR: CodeReason(
        "The source raised while it was imported or `ModelNew` was constructed.",
        "Import the file by itself. Guests see none of your files, no network, and few "
        "environment variables.",
    ),
    Code.COMPILE_ERROR: CodeReason(
        "A kernel does not compile for the target GPU.",
        "Triton's message names the line. Without a GPU, kernels are compiled for sm_90.",
    ),
    Code.RUNTIME_ERROR: CodeReason(
        "The call raised an exception.",
        "Read sizes and numbers from the arguments: the case in the message may differ from "
        "the task's own inputs.",
    ),
    Code.CRASHED: CodeReason(
        "The guest process died (signal, exit) while it ran the candidate.",
        "Look for accesses outside of tensors. A call must return, and must not end its process.",
    ),
    Code.TIMEOUT: CodeReason(
        "A call gave no answer within its limit, or all cases together took too long.",
        "Look for an endless loop or a deadlock; `--timeout` sets the limit of one call.",
    ),
    Code.OUT_OF_MEMORY: CodeReason(
        "Memory ran out in the guest.",
        "Allocate outputs and scratch memory of about the inputs' size.",
    ),
    Code.OUT_OF_BOUNDS: CodeReason(
        "A kernel read or wrote outside its tensors: the interpreter's bounds check, an "
        "illegal access on the GPU, or a write just beside a tensor.",
        "Mask loads and stores; beyond 2^31 elements offsets must be 64-bit.",
    ),
    Code.MALFORMED: CodeReason(
        "The guest's answer does not follow the protocol.",
        "The candidate wrote into the channel, or replaced functions that answer. No kernel "
        "needs to do this.",
    ),
    Code.WRONG_STRUCTURE: CodeReason(
        "Number, shape, dtype or memory layout of outputs, or the containers that hold them, "
        "are not the reference's. Or an output requires gradients of its own.",
        "Return plain tensors of the reference's types, in its order. Contiguous outputs are "
        "always accepted.",
    ),
    Code.WRONG_VALUES: CodeReason(
        "Outputs are further from the float64 reference than the policy allows, or differ "
        "where they must be exact.",
        "The case names shape and input family. If precision is the cause, choose `tf32x3` or"
        " `ieee` for `tl.dot` and accumulate in float32, or judge under the policy that "
        "`advice` names.",
    ),
    Code.NOT_FINITE: CodeReason(
        "NaN or infinity where the reference is finite, or the other way round.",
        "Subtract the maximum before `exp`; mask reductions with their neutral element.",
    ),
    Code.UNWRITTEN: CodeReason(
        "Part of an output is never written: it has the values of fresh memory.",
        "Let the grid cover every element, or allocate the output with zeros where it must be"
        " zero.",
    ),
    Code.STATE_DIFFERS: CodeReason(
        "Parameters, buffers, attributes or inputs after the call are not the reference's, or"
        " a parameter of the reference has no counterpart in the candidate. Or the tensors that "
        "the candidate keeps grow with each call.",
        "In the call, update exactly the state that the reference updates in this mode. Keep "
        "the names of the reference, or its order and shapes.",
    ),
    Code.INPUT_CHANGED: CodeReason(
        "The call changed an input that the reference does not change.",
        "Write to memory that the call allocates.",
    ),
    Code.ALIASED: CodeReason(
        "An output shares memory with an input, a parameter, another output or the output of "
        "an earlier call, where the reference's does not. Or the candidate keeps the outputs of "
        "more than four calls.",
        "Allocate each output in the call.",
    ),
    Code.NOT_LAUNCHED: CodeReason(
        "None of the candidate's kernels ran in the judged call.",
        "Launch them in every call; results kept from earlier calls do not count.",
    ),
    Code.DECOY: CodeReason(
        "A kernel ran, and the outputs are right without it.",
        "Remove the kernel, or use what it computes.",
    ),
    Code.LIBRARY_COMPUTE: CodeReason(
        "In `pure` mode PyTorch, NumPy or Python computed something in the judged call, or "
        "too many values left PyTorch.",
        "Move it into a kernel, or judge in `hybrid` mode. Allocating, filling, copying and "
        "views are free.",
    ),
    Code.TAMPERED: CodeReason(
        "Functions, classes or modules of PyTorch, Triton or Python were replaced in the guest.",
        "Do not assign to names of other modules.",
    ),
    Code.SETTINGS_CHANGED: CodeReason(
        "A process-wide setting has another value after the call: default dtype, TF32, grad "
        "mode, threads, current stream, seeds of generators.",
        "Choose precision and device in each call, or restore the setting.",
    ),
    Code.LEFT_RUNNING: CodeReason(
        "Threads, processes or GPU work outlive the call.",
        "Join the threads and processes that you start. Wait for side streams before you return.",
    ),
    Code.IMPLAUSIBLE_TIME: CodeReason(
        "Reported times contradict the host's clock or the physics floor.",
        "If the kernel is honest, this is our bug. Please report it with the verdict's JSON.",
    ),
}


def markdown() -> str:
    """The table of all codes, as docs/verifier.md shows it."""
    rows = [f"| `{code}` | {r.meaning} | {r.remedy} |" for code, r in REASONS.items()]
    return "\n".join(["| code | what it means | what to do |", "| --- | --- | --- |", *rows])
