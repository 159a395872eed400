"""A module's call as a CUDA graph. An optimized.py holds this text too: `search.module.forward`."""

import weakref
from collections.abc import Callable

import torch

Tensors = tuple[torch.Tensor, ...]
Compute = Callable[[torch.nn.Module, Tensors], list[torch.Tensor]]


class CapturedCall:
    """`compute` as a CUDA graph, for a module whose tensors stay where they are.

    PyTorch's settings, such as for TF32, are those of the first call. Its memory is one: two
    threads, or two streams, must not call it at the same time.
    """

    def __init__(self, module: torch.nn.Module, tensors: Tensors, compute: Compute) -> None:
        tables = [t for m in module.modules() for t in (m._parameters, m._buffers, m._modules)]
        self.entries = [(table, name, entry) for table in tables for name, entry in table.items()]
        self.state = [*module.parameters(), *module.buffers()]
        self.places = [tensor.data_ptr() for tensor in self.state]
        self.given = tuple(tensor.clone() for tensor in tensors)
        buffers = [(buffer, buffer.clone()) for buffer in module.buffers()]
        before = torch.cuda.current_stream()
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(before)
        with torch.cuda.stream(side):  # compiles and chooses algorithms: a capture must not
            for _ in range(2):
                compute(module, self.given)
        before.wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        # A graph that ends takes cuBLAS's workspaces of its stream along: not on one for all.
        with torch.cuda.graph(self.graph, stream=side, capture_error_mode="thread_local"):
            self.results = compute(module, self.given)
        for buffer, value in buffers:  # two calls have moved them
            buffer.copy_(value)

    def is_current(self, tensors: Tensors) -> bool:
        """Whether all that the graph reads is what it was, and where it was."""
        return (
            tensors[0].device == self.given[0].device
            and all(table.get(name) is entry for table, name, entry in self.entries)
            and [tensor.data_ptr() for tensor in self.state] == self.places
        )

    def __call__(self, tensors: Tensors) -> list[torch.Tensor]:
        for mine, tensor in zip(self.given, tensors, strict=True):
            mine.copy_(tensor)
        self.graph.replay()
        return [result.clone() for result in self.results]


captured_calls: weakref.WeakKeyDictionary[torch.nn.Module, CapturedCall] = (
    weakref.WeakKeyDictionary()
)


def replay(module: torch.nn.Module, tensors: Tensors, compute: Compute) -> list[torch.Tensor]:
    """`compute(module, tensors)` by the module's graph, captured anew where it is not current."""
    if not tensors[0].is_cuda or torch.cuda.is_current_stream_capturing():
        return compute(module, tensors)
    call = captured_calls.get(module)
    if call is None or not call.is_current(tensors):
        with torch.cuda.device(tensors[0].device):
            call = captured_calls[module] = CapturedCall(module, tensors, compute)
    return call(tensors)
