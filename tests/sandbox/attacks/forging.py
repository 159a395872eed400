# mypy: ignore-errors
"""Kind B: answers that the guest forges, by functions of the judge's own that it replaces."""

import json
import os
import signal
import time

import torch

from tests.sandbox.attacks.attack import BOTH_GRADES, add, attack
from tests.sandbox.attacks.prelude import (
    Announced,
    channel,
    fail_at,
    forge,
    frames,
    inside,
    raw_answer,
    raw_frame,
)

NO_VERDICT = "the host has an error of its own, and no verdict"

FIELDS = {
    "counts_infinite": 'launches={"relu_kernel": math.inf}',
    "counts_not_a_number": 'operators={"relu": math.nan}',
    "counts_negative": 'launches={"relu_kernel": -1}, suppressed={"relu_kernel": -(10**30)}',
    "counts_of_4000_digits": 'launches={"relu_kernel": 10**4000}',
    "counts_fractional": 'launches={"relu_kernel": 1.5}',
    "counts_with_codes": 'launches={"\\x1b[2J\\ud800": 1}',
    "counts_of_a_list": "launches=[1], operators=7",
    "counts_by_the_million": 'launches={f"k{i}": 1 for i in range(600_000)}',
    "operators_by_the_million": 'operators={f"aten.k{i}": 1 for i in range(100_000)}',
    "positions_infinite": "changed=[math.inf]",
    "positions_beyond": "changed=[10**6]",
    "positions_negative": "changed=[-7]",
    "pairs_infinite": "aliases=[[math.inf, 0]]",
    "pairs_beyond": "aliases=[[10**6, 10**6]]",
    "pairs_of_three": "shared=[[0, 1, 2]]",
    "held_beyond": "held=[10**6], overwritten=[10**6]",
    "process_of_nothing": "process=None",
    "process_counts_infinite": 'process={"settings": {}, "running": {"threads": math.inf}}',
    "process_without_facts": 'process={"settings": {}, "running": {}}',
    "process_with_a_novel": 'process={"settings": {"x": "y" * 14_000_000}, "running": {}}',
    "structure_of_a_number": "structure=7, overrun=[]",
    "structure_of_15_million": 'structure="T" * 15_000_000',
    "outputs_of_nothing": "outputs=None",
    "outputs_without_sizes": "outputs=[{}]",
    "outputs_of_a_listed_type": 'outputs=[{"shape": [1], "strides": [1], "dtype": ["float32"]}]',
    "outputs_of_true": 'outputs=[{"shape": [True], "strides": [1], "dtype": "float32"}]',
    "outputs_of_2_to_94": 'outputs=[{"shape": [1 << 47] * 2, "strides": [0, 0], "dtype": "int8"}]',
    "outputs_promised": 'outputs=[{"shape": [3 << 29], "strides": [1], "dtype": "float32"}]',
    "outputs_by_the_thousand": 'outputs=[{"shape": [0], "strides": [1], "dtype": "int8"}] * 90_000',
}
"""Name -> the forged fields of an answer about a call."""

for _name, _fields in FIELDS.items():
    add(
        _name,
        "B",
        f"Answer calls with {_fields}",
        f"{NO_VERDICT}, much memory, or a long verdict",
        f"def {_name}(facts, x0):\n    forge_calls({_fields})\n",
        when="import",
    )

FAULTS = {
    "fault_of_nothing": "[]",
    "fault_of_unknown_kind": '{"kind": ["infra"], "type": {}, "message": 7, "line": 1}',
    "fault_at_no_line": '{"kind": "runtime", "type": "E", "message": "m", "line": -(10**4000)}',
    "fault_of_12_million": '{"kind": "load", "type": "E" * 12_000_000, "message": "", "line": 1}',
    "fault_with_codes": '{"kind": "load", "type": "\\x1b[2J", "message": "\\ud800", "line": True}',
}
"""Name -> the forged fault."""

for _name, _fault in FAULTS.items():
    add(
        _name,
        "B",
        f"Answer the next request with the fault {_fault}",
        f"{NO_VERDICT}, or a verdict that no terminal should see",
        f"def {_name}(facts, x0):\n    forge('fetch', fault={_fault}, context_lost='yes')\n",
    )


@attack(kind="B", outside=NO_VERDICT)
def nested_answer(facts, x0):
    """Answer with lists in lists, 100 000 deep, under the true nonce."""
    raw_answer(f'"structure": {"[" * 100_000}{"]" * 100_000}')


@attack(kind="B", outside=NO_VERDICT)
def numbers_of_a_million_digits(facts, x0):
    """Answer with a number that takes minutes to read."""
    raw_answer(f'"structure": {"7" * 1_000_000}')


@attack(kind="B", outside=NO_VERDICT)
def answer_twice(facts, x0):
    """Answer the present request, then go on, so that each answer is to the request before."""
    request = next(frame.f_locals["request"] for frame in frames() if "request" in frame.f_locals)
    text = json.dumps({"nonce": request["nonce"], "structure": "T"}).encode()
    channel().sendall(raw_frame(text))


@attack(kind="B", outside=NO_VERDICT)
def flood(facts, x0):
    """Write to the channel without end, and never answer."""
    while True:
        channel().sendall(bytes(1 << 20))


@attack(kind="B", outside=NO_VERDICT)
def payload_of_a_tebibyte(facts, x0):
    """Promise a payload of 1 TiB."""
    channel().sendall(raw_frame(b"{}", 1 << 40))
    time.sleep(30)


@attack(kind="B", outside=NO_VERDICT, hangs=True)
def header_that_never_ends(facts, x0):
    """Promise a header of 16 MiB, and send one byte after the other."""
    channel().sendall(raw_frame(bytes(16 << 20))[:100])
    while True:
        time.sleep(0.2)
        channel().sendall(b" ")


@attack(kind="B", outside=NO_VERDICT, grades=("recycled",))
def failure_to_take_inputs(facts, x0):
    """Raise where the host believes that nothing of a candidate's runs."""

    def put(request, payload):
        raise RuntimeError("the guest has no room")

    inside().put = put


@attack(kind="B", outside=NO_VERDICT, grades=("recycled",))
def failure_at_put(facts, x0):
    """Raise at each request to take inputs, and hide the change."""
    fail_at("put", lambda request, payload: 1 // 0)


@attack(kind="B", outside=NO_VERDICT)
def failure_at_attest(facts, x0):
    """Raise where the process is attested."""
    fail_at("attest", lambda request, payload: 1 // 0)


@attack(kind="B", outside=NO_VERDICT, grades=("recycled",))
def failure_at_forget(facts, x0):
    """Raise where the candidate is forgotten."""
    fail_at("forget", lambda request, payload: 1 // 0)


@attack(kind="B", outside=NO_VERDICT)
def end_at_attest(facts, x0):
    """End the process where it is attested."""
    fail_at("attest", lambda request, payload: os._exit(0))


@attack(kind="B", outside=NO_VERDICT, hangs=True, grades=("recycled",))
def hang_at_forget(facts, x0):
    """Never answer where the candidate is forgotten."""
    fail_at("forget", lambda request, payload: time.sleep(600))


@attack(kind="B", outside=NO_VERDICT)
def attested_infinity(facts, x0):
    """Attest counts that are infinite, and names of other types."""
    process = {"settings": {"a": [1]}, "running": {"threads": float("inf")}, "changed": 7}
    forge("attest", process=process)


@attack(kind="B", outside=NO_VERDICT, when="import")
def compiled_infinity(facts, x0):
    """Report registers without number of a kernel that was compiled."""
    used = {"registers": float("inf"), "shared_bytes": float("nan"), "spills": -1}
    forge("compile", kernels={"relu_kernel": used}, signatures=[{"a": 1}, float("inf"), ["*f32"]])


@attack(kind="B", outside=NO_VERDICT, when="import")
def compiled_endlessly(facts, x0):
    """Report 100 000 signatures of kernels, so that each would be built."""
    forge("compile", kernels={}, signatures=[["i32"] * 8] * 100_000)


@attack(kind="B", outside=NO_VERDICT, when="import")
def loaded_nothing(facts, x0):
    """Answer the request to load before the module is there."""
    raw_answer('"entry": null, "kernels": 7')


@attack(kind="B", outside=NO_VERDICT, when="init")
def state_of_2_to_45(facts, model):
    """Have a buffer of 2^45 elements that lie on one."""
    model.register_buffer("extra", torch.zeros(1).expand(1 << 45))


@attack(kind="B", outside=NO_VERDICT, when="init")
def attributes_of_every_kind(facts, model):
    """Have attributes that are infinite, that are no texts, and that have long names."""
    model.ratio, model.count = float("inf"), 10**4000
    model.text, model.nothing = "\ud800\x1b[2J", float("nan")
    setattr(model, "n" * 3_000_000, "v" * 3_000_000)


@attack(kind="B", outside=NO_VERDICT, when="init")
def entries_of_every_type(facts, model):
    """Answer the request for the state with names and kinds of other types."""
    entry = {"name": ["w"], "kind": {}, "shape": [1 << 45], "strides": [0], "dtype": "float32"}
    forge("state", entries=[entry, {**entry, "name": 7}])


@attack(kind="B", outside=NO_VERDICT, grades=BOTH_GRADES)
def child_answers(facts, x0):
    """End the process that the host started; a child goes on in its place."""
    if os.fork():
        os._exit(0)
    os.setsid()


@attack(kind="B", outside=NO_VERDICT)
def channel_closed(facts, x0):
    """Close the channel, and live on."""
    channel().close()
    time.sleep(30)


@attack(kind="B", outside=NO_VERDICT, hangs=True)
def stopped(facts, x0):
    """Stop the process, with a child that would go on."""
    os.kill(os.getpid(), signal.SIGSTOP)


@attack(kind="B", outside=NO_VERDICT, grades=BOTH_GRADES)
def real_time_signal(facts, x0):
    """Die of a signal that has no name."""
    os.kill(os.getpid(), 40)


@attack(kind="B", outside=NO_VERDICT)
def message_that_raises(facts, x0):
    """Raise an exception whose text, class and chain raise exceptions."""

    class Broken(type):
        __name__ = property(lambda cls: 1 // 0)

    class Fault(Announced, metaclass=Broken):
        def __str__(self):
            raise self

    raise Fault
