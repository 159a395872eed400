"""Searches that have ended, and a stand-in for Inductor: eager calls."""

from kernelwright.compile.backend import Compiler
from kernelwright.compile.settings import BackendSettings
from kernelwright.programs.fragments.compose import compose


def result(form, source="", *, speedup=2.0):
    """The records of a search that delivers this form."""
    return [
        {
            "record": "result",
            "form": form,
            "source": source,
            "outcome": {"message": "all of it won"},
            "speedups": {"over_compile": [speedup, 1.9, 2.1]},
        }
    ]


class FakeFinder:
    """Delivers PyTorch's own calls as if they were kernels, and counts calls of the functions.

    Args:
        knows: the library has every program.
        form: the form that searches deliver.
        change: of the source of a program.
    """

    def __init__(self, *, knows=False, form="kernels", change=lambda source: source):
        self.knows, self.form, self.change = knows, form, change
        self.searched = []

    def known(self, sought, _settings):
        return self._records(sought) if self.knows else None

    def search(self, sought, _settings):
        self.searched.append(sought.program)
        return self._records(sought)

    def _records(self, sought):
        program = sought.program if sought.sized is None else sought.sized.spelled
        source = self.change(compose(program, []).source)
        return result(self.form, source)


def compiler(finder=None, copied_share=float("inf"), **options):
    """The backend on a CPU, with eager calls in the place of Inductor's code."""
    calls = []

    def eager(graph, _inputs):
        calls.append(graph)
        return graph.forward

    backend = Compiler(
        BackendSettings.of({"search": "now"} | options),
        finder=finder or FakeFinder(),
        inductor=eager,
        device_types=("cpu",),
        copied_share=copied_share,
    )
    backend.left_to_inductor, backend.finder = calls, backend._finder
    return backend
