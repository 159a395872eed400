"""The backend of torch.compile: Inductor's code at once, verified kernels where they are faster."""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import torch

from kernelwright.compile.graph import (
    COPIED_SHARE,
    GraphProgram,
    are_wanted_gradients,
    read_graph,
    read_part,
    why_not,
)
from kernelwright.compile.memory import StaysWithInductor
from kernelwright.compile.reports import FAULT, GraphReport
from kernelwright.compile.searching import Finder, LibraryFinder, background
from kernelwright.compile.served import Call, ServedGraph, ServedPart
from kernelwright.compile.settings import BACKGROUND, OFF, BackendSettings
from kernelwright.compile.training import compile_training
from kernelwright.core.delivered import OURS
from kernelwright.core.record import Record
from kernelwright.programs.program import Program
from kernelwright.programs.reference import make_inputs
from kernelwright.search.module.importing import Compute, imported_function

Inductor = Callable[[torch.fx.GraphModule, Sequence[Any]], Call]
logger = logging.getLogger("kernelwright")


def _inductor(graph: torch.fx.GraphModule, inputs: Sequence[Any], mode: str | None = None) -> Call:
    from torch._inductor import list_mode_options  # seconds
    from torch._inductor.compile_fx import compile_fx

    patches = list_mode_options(mode) if mode else None
    compiled: Any = compile_fx(graph, list(inputs), config_patches=patches)
    return cast(Call, compiled)


class Compiler:
    """Compiles Dynamo's graphs, and keeps a report of each.

    Args:
        finder: finds kernels for programs.
        inductor: compiles what has no kernels yet, or never.
        device_types: devices on which kernels of ours run.
        copied_share: as of `graph.COPIED_SHARE`.
    """

    def __init__(
        self,
        settings: BackendSettings,
        *,
        finder: Finder | None = None,
        inductor: Inductor = _inductor,
        device_types: Sequence[str] = ("cuda",),
        copied_share: float = COPIED_SHARE,
    ) -> None:
        self._settings, self._finder = settings, finder or LibraryFinder()
        self._inductor, self._device_types = inductor, device_types
        self._copied_share = copied_share
        self.reports: list[GraphReport] = []

    def __call__(self, graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Call:
        """Compiles a graph to a function of its inputs. A fault of ours leaves it to Inductor."""
        reason = why_not(inputs, self._device_types)
        if not reason and are_wanted_gradients(inputs):
            why_ended = _graph_break(graph)
            return compile_training(graph, inputs, partial(self._part, graph_break=why_ended))
        report = self._report(graph, _graph_break(graph))
        report.keeps_inductor(reason)
        program = None if reason else self._read(partial(read_graph, graph), inputs, report)
        if program is None:
            return self._inductor(graph, inputs)
        records = self._known(program)
        if records is not None and records[-1]["form"] not in OURS:
            report.read(records)
            return self._inductor(graph, inputs)
        if records is not None and program.serves_all_calls:
            # Kernels need no code of Inductor's beside them, unless a call of theirs fails.
            inductor = _at_first_call(self._inductor, graph)
        else:  # Dynamo knows symbols while it compiles alone
            inductor = self._inductor(graph, inputs)
        served = ServedGraph(lambda given: inductor(*given), partial(_give_up, report))
        self._serve(served, program, records, report)
        return served

    def _part(
        self,
        graph: torch.fx.GraphModule,
        inputs: Sequence[Any],
        code: Call,
        is_backward: bool,
        *,
        graph_break: str,
    ) -> Call:
        """The function that stands in for Inductor's code of a forward or a backward graph."""
        report = self._report(graph, graph_break)
        report.part = "backward" if is_backward else "forward"
        read = partial(read_part, graph, is_backward=is_backward)
        program = self._read(read, inputs, report)
        if program is None:
            return code
        records = self._known(program)
        served = ServedPart(code, partial(_give_up, report))
        self._serve(served, program, records, report)
        return served

    def _report(self, graph: torch.fx.GraphModule, graph_break: str) -> GraphReport:
        calls = [node for node in graph.graph.nodes if node.op.startswith("call_")]
        report = GraphReport(
            number=len(self.reports), num_calls=len(calls), graph_break=graph_break
        )
        self.reports.append(report)
        return report

    def _serve(
        self,
        served: ServedGraph,
        program: GraphProgram,
        records: Sequence[Record] | None,
        report: GraphReport,
    ) -> None:
        """Serve the kernels that the library knows, or have a search look for some."""
        if records is not None:
            _deliver(served, program, records, report)
        else:
            self._search(served, program, report)

    def _read(
        self, read: Callable[..., GraphProgram], inputs: Sequence[Any], report: GraphReport
    ) -> GraphProgram | None:
        """A graph as a program; None where the graph stays with Inductor."""
        try:
            return read(inputs, copied_share=self._copied_share)
        except StaysWithInductor as reason_to_stay:
            report.keeps_inductor(str(reason_to_stay))
        except Exception as error:
            report.keeps_inductor(_fault(error))
        return None

    def _known(self, program: GraphProgram) -> Sequence[Record] | None:
        """The records of an earlier search. A library that fails knows nothing."""
        try:
            return self._finder.known(program.sought, self._settings)
        except Exception as error:
            _fault(error)
            return None

    def _search(self, served: ServedGraph, program: GraphProgram, report: GraphReport) -> None:
        """Have a search look for kernels, as the settings say."""
        if self._settings.search == OFF:
            report.keeps_inductor("the library has no search of this graph")
            return
        report.keeps_inductor("the search goes on")

        def search(warm_device: torch.device | None = None) -> None:
            try:
                records = self._finder.search(program.sought, self._settings)
            except Exception as error:
                report.keeps_inductor(_fault(error))
            else:
                _deliver(served, program, records, report, warm_device)

        if self._settings.search == BACKGROUND:
            background.submit(lambda: search(program.device))
        else:
            search()  # the first call warms: Dynamo compiles one thing at a time


def _graph_break(graph: torch.fx.GraphModule) -> str:
    """Why Dynamo ended the graph, as Dynamo says."""
    reason = getattr(graph, "compile_subgraph_reason", None)
    return str(reason.reason) if reason is not None and reason.graph_break else ""


def _give_up(report: GraphReport, error: Exception) -> None:
    report.keeps_inductor(_fault(error))


def _at_first_call(inductor: Inductor, graph: torch.fx.GraphModule) -> Call:
    """Inductor's code for the graph, compiled when the function is called first."""
    compiled: list[Call] = []

    def call(*inputs: Any) -> Any:
        if not compiled:
            compiled.append(inductor(graph, inputs))
        return compiled[0](*inputs)

    return call


def _deliver(
    served: ServedGraph,
    program: GraphProgram,
    records: Sequence[Record],
    report: GraphReport,
    warm_device: torch.device | None = None,
) -> None:
    """Serve the kernels of a search that has them. A fault leaves the graph to Inductor.

    Args:
        warm_device: call the kernels once there before they are served.
    """
    report.read(records)
    if records[-1]["form"] not in OURS:
        return
    try:
        compute = imported_function(records[-1]["source"])
        if warm_device is not None:
            _warm(compute, program.program, warm_device)
        serves = None if program.serves_all_calls else program.serves
        served.exchange(program.caller(compute), serves)
    except Exception as error:
        report.keeps_inductor(_fault(error))


def _warm(compute: Compute, program: Program, device: torch.device) -> None:
    """Call a function once, which compiles kernels: the user's calls do not wait for that, and a
    source that fails is never served."""
    with torch.no_grad():
        compute(*make_inputs(program, seed=0, device=device))


def _fault(error: Exception) -> str:
    logger.warning("kernelwright leaves a graph to Inductor: %s", error)
    return f"{FAULT}: {type(error).__name__}: {error}"


def backend(
    graph: torch.fx.GraphModule,
    inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Call:
    """`torch.compile(model, backend="kernelwright", options={...})`.

    Args:
        options: as of `BackendSettings`: "budget_s", "search", "precision", "library".
        mode: as of torch.compile. Kernels are compared with the default mode, so graphs in other
            modes are left to Inductor.

    Raises:
        UsageError: an option cannot be used. All else that fails leaves the graph to Inductor.
    """
    compiler = Compiler(BackendSettings.of(options))
    return compiler(graph, inputs) if mode is None else _inductor(graph, inputs, mode)
