"""A searched form of a program: its tuned fragments, the chosen ones, and the whole with them."""

from dataclasses import dataclass, fields, replace
from enum import StrEnum

from kernelwright.core.candidate import Candidate
from kernelwright.core.verdict import Verdict
from kernelwright.programs.fragments.compose import Replacement, compose
from kernelwright.programs.fragments.fragment import extract
from kernelwright.programs.program import Program
from kernelwright.search.forms import ProgramForm
from kernelwright.search.tune import Tuned


@dataclass(frozen=True, kw_only=True, slots=True)
class Variant(ProgramForm):
    """A form, searched."""

    tuned: tuple[Tuned, ...]
    chosen: tuple[int, ...]
    """Indices into `tuned` of the fragments that are replaced."""
    num_untried: int = 0
    """Fragments that were proposed, and that the budget left no time for."""
    is_unproposed: bool = False
    """The budget ended before any fragment was proposed."""

    @classmethod
    def of(
        cls,
        form: ProgramForm,
        tuned: tuple[Tuned, ...],
        chosen: tuple[int, ...],
        num_untried: int = 0,
    ) -> "Variant":
        # `asdict` would turn the programs into dicts.
        facts = {field.name: getattr(form, field.name) for field in fields(ProgramForm)}
        return cls(**facts, tuned=tuned, chosen=chosen, num_untried=num_untried)

    def replacements(self, program: Program | None = None) -> list[Replacement]:
        """The chosen winners, on the program itself or one of the same structure."""
        program = program or self.program
        chosen = []
        for i in self.chosen:
            best = self.tuned[i].best
            assert best is not None
            fragment = extract(program, self.tuned[i].fragment.calls)
            chosen.append(Replacement(fragment.calls, fragment.inputs, fragment.outputs, best))
        return chosen

    def composed(self) -> Candidate:
        """The whole with the kernels of the chosen fragments."""
        return compose(self.written, self.replacements())

    def without_least(self, verdict: Verdict, num: int = 1) -> "Variant":
        """The variant with the `num` chosen fragments that save least back in PyTorch; `verdict` is
        why the whole is not kept as it is."""
        reason = "stays PyTorch: the whole is slower with it"
        if not verdict.accepted:
            reason = f"stays PyTorch: the whole was rejected with it ({verdict.code})"
        return self.giving_back(num, reason)

    def giving_back(self, num: int, reason: str) -> "Variant":
        """The variant with the `num` chosen fragments that save least back in PyTorch."""
        least = sorted(self.chosen, key=lambda i: self.tuned[i].saving)[:num]
        tuned = list(self.tuned)
        for i in least:
            tuned[i] = replace(tuned[i], winner=None, reason=reason, saving=0.0)
        chosen = tuple(i for i in self.chosen if i not in least)
        return replace(self, tuned=tuple(tuned), chosen=chosen)


class ServedForm(StrEnum):
    """The code that a call of the result runs: the "form" of records."""

    KERNELS = "kernels"
    """Our kernels and PyTorch's calls, one after the other."""
    COMPILED_KERNELS = "compiled_kernels"
    """The same inside torch.compile: Inductor compiles what the kernels leave."""
    COMPILED = "compiled"
    """The unchanged original inside torch.compile."""
    ORIGINAL = "original"


@dataclass(frozen=True, slots=True)
class Whole:
    """The whole result for a target, judged against the original."""

    variant: Variant
    source: str
    verdict: Verdict
    served: ServedForm = ServedForm.KERNELS
    launched_ms: float | None = None
    """Milliseconds of the same kernels launched one by one, where the source is a CUDA graph."""
    contender: str | None = None
    """Its name in the contest (`search.contest.contest`), where it took part."""
