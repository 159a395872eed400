"""Expert iteration: the fastest correct answers of a pool, as pairs to train on.

A policy that learns from its own best answers moves towards the fast end of what it writes (Anthony
et al. 2017; Gulcehre et al. 2023). Answers within the noise of the fastest are kept too: the clock
cannot tell them apart.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.core.record import Record
from kernelwright.data.pairs.pair import TRAIN, VALIDATION, make_pair, split_of, with_verdict
from kernelwright.data.pairs.programs import PROJECT_LICENCE
from kernelwright.data.pool.answers import PoolAnswer, PoolProgram, read_head, read_pool
from kernelwright.data.pool.writing import TEACHER
from kernelwright.policy.answer import read_answer
from kernelwright.policy.prompt import Request
from kernelwright.programs.text import parse
from kernelwright.programs.traffic import modelled_speedup

SOURCE = "pool"


def write_fastest(
    pools: Iterable[Path],
    out: Path,
    *,
    within: float = 0.03,
    teacher: bool = True,
    validation: float = 0.02,
) -> Record:
    """Pairs of the fastest answers, in train.jsonl and validation.jsonl, for `train sft`.

    Speed is the measured time where an answer was timed. In pools that nobody timed, speed is the
    estimate; both never meet in one pool.

    Args:
        within: share of the fastest time by which an answer may be slower.
        teacher: the teacher's answers take part.
        validation: share of programs that is held back.

    Returns:
        How many pairs and programs there are, by level and by writer.

    Raises:
        UsageError: a folder holds no pool, or a pool no correct answer.
    """
    pairs: dict[str, list[Record]] = {TRAIN: [], VALIDATION: []}
    counts: Record = {"programs": 0, "pairs": 0, "levels": {}, "writers": {}}
    for folder in pools:
        rules = read_head(folder)["recipe"]["judging"]
        for program in read_pool(folder):
            kept = list(_fastest(program, within=within, teacher=teacher))
            counts["programs"] += bool(kept)
            # Seed 0 in all pools: a program is on the same side whichever pools are joined.
            split = split_of(program.fingerprint, validation, 0)
            for answer in kept:
                pairs[split].append(_pair(folder, program, answer, rules, split))
                counts["pairs"] += 1
                for kind, name in (("levels", f"L{program.level}"), ("writers", answer.writer)):
                    counts[kind][name] = counts[kind].get(name, 0) + 1
    if not counts["pairs"]:
        remedy = "finish the pools: kernelwright data pool RECIPE.toml --out POOL"
        raise UsageError("no correct answer in these pools", remedy=remedy)
    for split, lines in pairs.items():
        path = out / f"{split}.jsonl"
        path.unlink(missing_ok=True)
        record.append(path, lines)
    return counts


def _fastest(program: PoolProgram, *, within: float, teacher: bool) -> Iterator[PoolAnswer]:
    correct = [
        answer
        for answer in program.answers
        if (teacher or answer.writer != TEACHER)
        and answer.verdict is not None
        and answer.verdict.accepted
    ]
    speeds = speeds_of(program, correct)
    for answer, speed in zip(correct, speeds, strict=True):
        if speed * (1 + within) >= max(speeds):
            yield answer


def speeds_of(program: PoolProgram, correct: Sequence[PoolAnswer]) -> list[float]:
    """Speed-ups over PyTorch of a program's correct answers, in their order.

    All are measured, or if none was timed, all are estimated. An answer without a time counts as 0
    if others were timed.
    """
    verdicts = [answer.verdict for answer in correct if answer.verdict is not None]
    if any(verdict.speedup is not None for verdict in verdicts):
        return [verdict.speedup or 0.0 for verdict in verdicts]
    parsed = parse(program.text)
    speeds = []
    for answer, verdict in zip(correct, verdicts, strict=True):
        candidate = read_answer(answer.text, origin=answer.writer).candidate
        assert candidate is not None, "a verdict is of a candidate"
        speeds.append(modelled_speedup(parsed, candidate, verdict.launches))
    return speeds


def _pair(
    folder: Path, program: PoolProgram, answer: PoolAnswer, rules: Record, split: str
) -> Record:
    candidate = read_answer(answer.text, origin=answer.writer).candidate
    assert candidate is not None, "a verdict is of a candidate"
    assert answer.verdict is not None, "pairs are of answers that were judged"
    request = Request(program=parse(program.text), precision=rules["precision"], mode=rules["mode"])
    pair = make_pair(
        f"{folder.name}/{program.name}/{answer.number}",
        request,
        candidate,
        program.fingerprint,
        reasoning="",
        source=SOURCE,
        origin="synth",
        licence=PROJECT_LICENCE,
        verdict=answer.verdict.code.value,
        split=split,
        program=program.text,
        provenance={"pool": folder.name, "writer": answer.writer, "chosen": answer.chosen},
    )
    return with_verdict(pair.to_json(), answer.verdict)
