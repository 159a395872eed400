"""`optimized.py` as one CUDA graph: its text beside that of `search.emit`.

A network of hundreds of small calls takes as long as Python needs to launch them. Captured once and
replayed, all of them are one launch.
"""

from kernelwright.core.verdict import Verdict
from kernelwright.programs.lowering import Lowered

WAITS = 0.9
"""A call whose graph takes less than this share of its time waits for launches."""

CAPTURED_CALL = '''
class CapturedCall:
    """`run_kernels` as a CUDA graph, for a module whose tensors stay where they are.

    PyTorch's settings, such as for TF32, are those of the first call. Its memory is one: two
    threads, or two streams, must not call it at the same time.
    """

    def __init__(self, module, tensors):
        tables = [t for m in module.modules() for t in (m._parameters, m._buffers, m._modules)]
        self.entries = [(table, name, each) for table in tables for name, each in table.items()]
        self.state = [*module.parameters(), *module.buffers()]
        self.places = [each.data_ptr() for each in self.state]
        self.given = [each.clone() for each in tensors]
        buffers = [(each, each.clone()) for each in module.buffers()]
        before, side = torch.cuda.current_stream(), torch.cuda.Stream()
        side.wait_stream(before)
        with torch.cuda.stream(side):  # compiles and chooses algorithms: a capture must not
            for _ in range(2):
                run_kernels(module, self.given)
        before.wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            self.results = run_kernels(module, self.given)
        for each, value in buffers:  # two calls have moved them
            each.copy_(value)

    def is_current(self, tensors):
        """Whether all that the graph reads is what it was, and where it was."""
        return (
            tensors[0].device == self.given[0].device
            and all(table.get(name) is each for table, name, each in self.entries)
            and [each.data_ptr() for each in self.state] == self.places
        )

    def __call__(self, tensors):
        for mine, given in zip(self.given, tensors):
            mine.copy_(given)
        self.graph.replay()
        return [each.clone() for each in self.results]


captured_calls = weakref.WeakKeyDictionary()


def replay(module, tensors):
    """`run_kernels` by the module's graph, captured anew where it is not current."""
    if not tensors[0].is_cuda or torch.cuda.is_current_stream_capturing():
        return run_kernels(module, tensors)
    call = captured_calls.get(module)
    if call is None or not call.is_current(tensors):
        with torch.cuda.device(tensors[0].device):
            call = captured_calls[module] = CapturedCall(module, tensors)
    return call(tensors)
'''.strip()


def can_be_graphed(lowered: Lowered) -> bool:
    """Whether all that changes from call to call is its inputs and buffers: a graph knows neither
    plain attributes nor PyTorch's seed."""
    kinds = {source.kind for source in lowered.sources}
    is_random = any(call.is_random for call in lowered.program.calls)
    return "user" in kinds and "attribute" not in kinds and not is_random


def waits_for_launches(verdict: Verdict) -> bool:
    """Whether a call that was timed would be faster as a CUDA graph."""
    called, replayed = verdict.times.get("candidate"), verdict.times.get("candidate_graph")
    return (
        called is not None
        and replayed is not None
        and (replayed.median_ms < WAITS * called.median_ms)
    )
