"""A program in one memory layout, searched: its tuned fragments and the chosen ones."""

from dataclasses import dataclass

from kernelwright.programs.fragment import extract
from kernelwright.programs.program import Program
from kernelwright.search.compose import Replacement
from kernelwright.search.tune import Tuned


@dataclass(frozen=True, kw_only=True, slots=True)
class Variant:
    """The program in one layout, searched."""

    layout: str
    """"contiguous" or "channels_last"."""
    program: Program
    tuned: tuple[Tuned, ...]
    chosen: tuple[int, ...]
    """Indices into `tuned` of the fragments that are replaced."""
    rewrites: tuple[str, ...] = ()
    """What of `programs.rewrite` made the program out of the original."""

    def replacements(self, program: Program | None = None) -> list[Replacement]:
        """The chosen winners, on the program itself or one of the same structure."""
        program = program or self.program
        found = []
        for i in self.chosen:
            best = self.tuned[i].best
            assert best is not None
            fragment = extract(program, self.tuned[i].fragment.calls)
            found.append(Replacement(fragment.calls, fragment.inputs, fragment.outputs, best))
        return found
