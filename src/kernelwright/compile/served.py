"""The function that Dynamo calls for a graph: Inductor's code at first, our kernels once they are
verified."""

from collections.abc import Callable, Sequence
from typing import Any

Call = Callable[..., Any]


class ServedGraph:
    """A graph's function, whose implementation another thread may exchange.

    Args:
        inductor: Inductor's code for the graph, or what compiles that code at the first call. A
            function of the list of inputs.
        on_failure: gets the error of an exchanged implementation, which is given up then.
    """

    def __init__(self, inductor: Call, on_failure: Callable[[Exception], None]) -> None:
        self._inductor, self._on_failure = inductor, on_failure
        self._call = inductor

    def __call__(self, *inputs: Any) -> Any:
        return self._call(list(inputs))

    def exchange(
        self, kernels: Call, serves: Callable[[Sequence[Any]], bool] | None = None
    ) -> None:
        """Serve our kernels from the next call on. One assignment: calls in other threads run
        either implementation to its end.

        Args:
            kernels: a function of the inputs.
            serves: whether the kernels serve a call with these inputs; None: all calls.
        """

        def guarded(inputs: list[Any]) -> Any:
            if serves is not None and not serves(inputs):
                return self._inductor(inputs)
            try:
                return kernels(*inputs)
            except Exception as error:
                # Results are computed before an input changes, so Inductor's code can begin anew.
                self._call = self._inductor
                self._on_failure(error)
                return self._inductor(inputs)

        self._call = guarded


class ServedPart(ServedGraph):
    """A forward or a backward graph. AOTAutograd gives all inputs as one list, which Inductor's
    code empties: no caller may hold tensors whose memory the code could use again."""

    def __init__(self, inductor: Call, on_failure: Callable[[Exception], None]) -> None:
        super().__init__(inductor, on_failure)
        self._boxed_call = True  # AOTAutograd's name for that, which it looks for in the instance

    def __call__(self, inputs: list[Any]) -> Any:
        return self._call(inputs)
