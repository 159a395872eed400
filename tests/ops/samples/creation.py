"""Sample calls of the operators that make tensors of numbers alone."""

from samples import sample

SAMPLES = (
    sample("arange", start=0, end=16),
    sample("arange", start=3, end=20, step=5),
    sample("arange", start=7, end=-2, step=-3),
    sample("arange", start=0.0, end=1.0, step=0.125),
    sample("arange", start=0, end=5, dtype="float16"),
    sample("arange", start=2, end=2),
    sample("full", size=(3, 5), fill_value=0.5),
    sample("full", size=(), fill_value=2),
    sample("full", size=(2, 1), fill_value=True),
    sample("full", size=(4,), fill_value=1, dtype="bfloat16"),
)

BAD = (
    sample("arange", start=0, end=4, step=0),
    sample("arange", start=0, end=4, step=-1),
    sample("full", size=(2, -1), fill_value=0.0),
)
