"""Programs and shards for the tests of data sets: small, and made without drawing."""

from kernelwright.core import record
from kernelwright.data.pairs.recipe import PairsRecipe
from kernelwright.data.pairs.shard import index_of
from kernelwright.programs.record import program_record
from kernelwright.programs.text import parse

HEAD = "import torch\nimport torch.nn.functional as F\n\n\ndef get_inputs():\n"


def text(body, shapes=((8, 16),), returned="t0"):
    names = [f"x{i}" for i in range(len(shapes))]
    drawn = "".join(
        f"    {name} = torch.randn({shape}, dtype=torch.float32)\n"
        for name, shape in zip(names, shapes, strict=True)
    )
    lines = "".join(f"    {line}\n" for line in body)
    args = ", ".join(names)
    return (
        f"{HEAD}{drawn}    return [{args}]\n\n\n"
        f"def fused_operator({args}):\n{lines}    return [{returned}]\n"
    )


PROGRAMS = (
    text(["t0 = torch.relu(x0)"]),
    text(["t0 = torch.exp(x0)"], shapes=((12, 20),)),
    text(["t0 = torch.erf(x0)", "t1 = torch.softmax(t0, dim=1)"], returned="t1"),
    text(["t0 = torch.tan(x0)", "t1 = torch.sum(t0, dim=0)"], returned="t1"),
)


def program_file(path, texts=PROGRAMS, licence="MIT"):
    """As `data collect` writes it."""
    head = {"record": "run", "command": "data collect", "target": "pack", "licence": licence}
    lines = [
        {"record": "program", **program_record(parse(each)), "provenance": {"file": "pack/a.py"}}
        for each in texts
    ]
    record.append(path, [head, *lines])
    return path


def recipe(*parts, **fields):
    return PairsRecipe.of({"part": list(parts), **fields})


def pair_line(name, answer="answer", *, canonical="p", split="train", level=1):
    """The columns that selecting and assembling read."""
    return {
        "id": name,
        "prompt": [{"role": "user", "content": "request"}],
        "completion": [{"role": "assistant", "content": answer}],
        "source": "teacher",
        "origin": "synth",
        "licence": "MIT",
        "level": level,
        "difficulty": 1,
        "operators": ["relu"],
        "kernels": 1,
        "loops": ["one_pass"],
        "canonical": canonical,
        "verdict": "unverified",
        "split": split,
    }


def shard_file(folder, name, lines, **dropped):
    tally = {"record": "tally", "programs": len(lines), "answers": len(lines), "dropped": dropped}
    tally |= {"failures": [], "index": index_of(lines)}
    path = folder / name
    record.append(path, [*lines, tally])
    return path
