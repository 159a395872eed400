# mypy: ignore-errors
"""Kind B: outputs, texts, messages and files that the host reads, shows and removes."""

import os
import time
from contextlib import suppress

import torch

from tests.sandbox.attacks.attack import BOTH_GRADES, HONEST, add, attack
from tests.sandbox.attacks.prelude import Announced, relu, scratch

MEMORY = "the host takes more than 1 GiB, or has an error of its own"


@attack(kind="B", outside=MEMORY, when="calls")
def output_of_2_to_45(facts, x0):
    """Return 2^45 elements that lie on one."""
    return [torch.zeros(1).expand(1 << 45)]


@attack(kind="B", outside=MEMORY, when="calls")
def output_of_2_to_30(facts, x0):
    """Return 2^30 elements that lie on one."""
    return [torch.zeros(1).expand(1 << 30)]


@attack(kind="B", outside=MEMORY, when="calls")
def output_of_2_to_29_not_numbers(facts, x0):
    """Return 2^29 elements that lie on one and are no numbers, beside one that is right."""
    return [torch.full((1,), float("nan")).expand(1 << 29)]


@attack(kind="B", outside=MEMORY, when="calls")
def output_of_a_gibibyte(facts, x0):
    """Return 1.5 GiB where a few KiB are expected."""
    return [torch.zeros(3 << 27)]


@attack(kind="B", outside=MEMORY, when="calls")
def output_with_wide_strides(facts, x0):
    """Return the right shape, whose elements lie 1.4 GiB apart from the first to the last."""
    rows, columns = x0.shape
    result = torch.empty_strided((rows, columns), ((360 << 20) // rows, 1))
    result.copy_(relu(x0))
    return [result]


@attack(kind="B", outside=MEMORY, when="calls")
def outputs_that_share(facts, x0):
    """Return one tensor 500 times: 125 000 pairs share memory."""
    return [relu(x0)] * 500


@attack(kind="B", outside=MEMORY, when="calls")
def output_of_64_dimensions(facts, x0):
    """Return a tensor of more dimensions than most operators take."""
    return [relu(x0).reshape([1] * 62 + list(x0.shape))]


@attack(kind="B", outside=MEMORY, when="calls")
def output_that_is_empty_and_wide(facts, x0):
    """Return a tensor without elements, of 2^47 columns."""
    return [torch.empty(0, 1).expand(0, 1 << 47)]


@attack(kind="B", outside="the verdict has millions of characters", when="calls")
def many_nones(facts, x0):
    """Return a list whose structure is a text of millions of characters."""
    return [relu(x0), *[None] * 300_000]


@attack(kind="B", outside="the verdict has millions of characters", when="calls")
def class_of_a_long_name(facts, x0):
    """Return an object whose class has a name of 12 MiB."""
    return type("N" * (12 << 20), (), {})()


@attack(kind="B", outside="the verdict has millions of characters")
def exception_of_a_long_name(facts, x0):
    """Raise an exception whose class has a name of 12 MiB."""
    raise type("N" * (12 << 20), (Announced,), {})("no")


@attack(kind="B", outside="the message cannot be written as UTF-8")
def surrogates_in_a_message(facts, x0):
    """Raise an exception whose text has half a character."""
    raise Announced("half \ud800 a character \udfff")


@attack(kind="B", outside="the message has codes that a terminal obeys")
def codes_in_a_message(facts, x0):
    """Raise an exception whose text sets a title, clears the screen and turns the line around."""
    raise Announced("\x1b]0;owned\x07 \x1b[2J \x9b2J \r gone \x08 \u202e back \x00")


@attack(kind="B", outside="the verdict has codes that a terminal obeys", when="calls")
def codes_in_a_structure(facts, x0):
    """Return a dictionary with such a text as its key."""
    return {"\x1b]0;owned\x07\ud800": relu(x0)}


@attack(kind="B", outside="the judge has no verdict", hangs=True)
def message_that_never_ends(facts, x0):
    """Raise an exception whose text is never there."""

    class Slow(Announced):
        def __str__(self):
            while True:
                time.sleep(1)

    raise Slow


FOLDERS = "folders stay, or the host has an error of its own"


@attack(kind="B", outside=FOLDERS, grades=BOTH_GRADES)
def deep_folders(facts, x0):
    """Leave 1500 folders in one another."""
    here = os.open(scratch, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)


@attack(kind="B", outside=FOLDERS, grades=BOTH_GRADES)
def deep_folders_with_long_names(facts, x0):
    """Leave folders whose path is longer than the kernel takes."""
    here = os.open(scratch, os.O_RDONLY)
    for _ in range(40):
        os.mkdir("n" * 255, dir_fd=here)
        inner = os.open("n" * 255, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(os.open("file", os.O_CREAT, dir_fd=here))
    os.close(here)


@attack(kind="B", outside=FOLDERS, grades=BOTH_GRADES)
def folders_without_rights(facts, x0):
    """Leave folders that their owner can neither list nor enter, some of them with a file."""
    for number, mode in enumerate((0o000, 0o100, 0o300)):
        folder = os.path.join(scratch, f"closed{number}")
        os.mkdir(folder, mode)
        with suppress(OSError):
            os.mkdir(os.path.join(folder, "inner"), mode)
    filled = os.path.join(scratch, "filled")
    os.makedirs(os.path.join(filled, "inner"))
    with suppress(OSError):
        os.chmod(filled, 0)


@attack(kind="B", outside=FOLDERS, grades=BOTH_GRADES)
def many_files(facts, x0):
    """Leave 2000 files."""
    for number in range(2000):
        os.close(os.open(os.path.join(scratch, f"file{number}"), os.O_CREAT))


@attack(kind="B", outside=FOLDERS, grades=BOTH_GRADES)
def odd_names(facts, x0):
    """Leave files whose names are no texts, options or ends of lines, and pipes."""
    place = os.fsencode(scratch)
    for name in (b"\xff\xfe", b"-rf", b"a\nb", b"\xed\xa0\x80", b"\x1b[2J", b"*", b"~", b" "):
        os.close(os.open(os.path.join(place, name), os.O_CREAT))
    os.mkfifo(os.path.join(scratch, "pipe"))
    os.mkdir(os.path.join(scratch, "failure.txt"))


def _doubling(step: str) -> str:
    steps = "".join(f"t{n + 1} = {step.format(n=n)}\n" for n in range(24))
    return f't0 = "x"\n{steps}{HONEST}\n\ndef never():\n    getattr(torch, t24)\n'


SLOW = "the host reads the text for minutes"
for _name, _step in {
    "doubled_text": "t{n} + t{n}",
    "formatted_text": 'f"{{t{n}}}{{t{n}}}"',
}.items():
    add(
        _name,
        "B",
        f"Have the static rules compute {_step} in 24 steps",
        SLOW,
        _doubling(_step),
        reads_source=True,
        grades=("fresh",),
    )

TEXTS = {
    "surrogate_in_the_source": HONEST + '\nTEXT = "\ud800"\n',
    "nul_in_the_source": HONEST + '\nTEXT = "\0"\n',
    "deep_expression": f"{HONEST}\nTEXT = {'-' * 50_000}1\n",
    "deep_attributes": f"{HONEST}\ndef never():\n    return torch{'.nn' * 50_000}\n",
    "long_sum": f"{HONEST}\ndef never():\n    return {'1 + ' * 50_000}1\n",
}
"""Name -> a source that is hard to write, to parse or to walk through."""
UNREAD = ("surrogate_in_the_source", "deep_expression")
"""Those that are judged without static rules too."""

for _name, _text in TEXTS.items():
    for _reads in (True, False) if _name in UNREAD else (True,):
        add(
            _name + ("" if _reads else "_unread"),
            "B",
            "Have the host read a source that is no text, or that is nested deeply"
            + ("" if _reads else ", without static rules"),
            "the host has an error of its own, or ends",
            _text,
            reads_source=_reads,
        )
