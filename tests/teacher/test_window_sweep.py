"""Sweeps of convolutions, as text: the same sizes and the same taps as the definition gives."""

from types import SimpleNamespace

from hypothesis import assume, given
from hypothesis import strategies as st

from kernelwright.ops.windows import SlidingWindow, convolved, extent, transposed
from kernelwright.teacher.window.sweep import Sweep, TransposedSweep

TL = SimpleNamespace(
    cdiv=lambda a, b: (a + b - 1) // b, where=lambda test, yes, no: yes if test else no
)
small = st.integers(1, 5)


@given(n=st.integers(1, 12), kernel=small, stride=small, padding=st.integers(0, 4), dilation=small)
def test_a_convolution_has_the_size_and_the_windows_of_its_definition(
    n, kernel, stride, padding, dilation
):
    assume(n + 2 * padding >= extent(kernel, dilation))
    sweep = Sweep(symbol="H", kernel=kernel, stride=stride, padding=padding, dilation=dilation)
    [size] = convolved((n,), SlidingWindow((kernel,), (stride,), (padding,), (dilation,)))
    assert eval(sweep.out_size, {"H": n, "KH": kernel}) == size
    for out in range(size):
        start = eval(sweep.begin("oh"), {"oh": out})
        met = [start + eval(sweep.move("kh"), {"kh": tap}) for tap in range(kernel)]
        assert met == [out * stride - padding + tap * dilation for tap in range(kernel)]
        assert sweep.can_leave or all(0 <= position < n for position in met)


def test_sizes_are_those_of_the_definition_with_every_attribute_as_it_is():
    along = {"symbol": "H", "kernel": 3, "stride": 2, "padding": 1, "dilation": 2}
    assert Sweep(**along).out_size == "(H + 2 * 1 - 2 * (KH - 1) - 1) // 2 + 1"
    transposed_size = TransposedSweep(**along, output_padding=0).out_size
    assert transposed_size == "(H - 1) * 2 - 2 * 1 + 2 * (KH - 1) + 0 + 1"


@given(n=st.integers(1, 12), kernel=small, dilation=small)
def test_same_padding_keeps_the_size(n, kernel, dilation):
    before = dilation * (kernel - 1) // 2
    sweep = Sweep(
        symbol="H", kernel=kernel, stride=1, padding=before, dilation=dilation, keeps_size=True
    )
    assert eval(sweep.out_size, {"H": n}) == n
    assert sweep.can_leave


@given(
    n=st.integers(1, 8),
    kernel=small,
    stride=st.integers(1, 6),
    padding=st.integers(0, 4),
    dilation=st.integers(1, 6),
    added=st.integers(0, 3),
)
def test_a_transposed_convolution_gathers_every_contribution_once(
    n, kernel, stride, padding, dilation, added
):
    assume(added < max(stride, dilation))
    assume((n - 1) * stride - 2 * padding + extent(kernel, dilation) + added >= 1)
    sweep = TransposedSweep(
        symbol="H", kernel=kernel, stride=stride, padding=padding, dilation=dilation,
        output_padding=added,
    )  # fmt: skip
    [size] = transposed(
        (n,), SlidingWindow((kernel,), (stride,), (padding,), (dilation,)), (added,)
    )
    assert eval(sweep.out_size, {"H": n, "KH": kernel}) == size
    scattered = {
        (i * stride - padding + tap * dilation, i, tap) for i in range(n) for tap in range(kernel)
    }
    gathered = [entry for phase in range(stride) for entry in phase_of(sweep, phase, size)]
    assert len(gathered) == len(set(gathered))
    assert {(o, i, k) for o, i, k in gathered if 0 <= i < n} == {
        (o, i, k) for o, i, k in scattered if 0 <= o < size
    }


def phase_of(sweep: TransposedSweep, phase: int, size: int) -> list[tuple[int, int, int]]:
    """(output, input position, tap) of what a program of this phase visits."""
    names = {"tl": TL, "KH": sweep.kernel, "h_phase": phase}
    exec("\n".join(sweep.phase_lines()), names)
    found = []
    for out in range(phase, size, sweep.stride):
        start = eval(sweep.begin("q"), {**names, "q": out // sweep.stride})
        for count in range(eval(sweep.num_taps, names)):
            here = {**names, sweep.tap: count}
            position = start + eval(sweep.move(sweep.tap), here)
            found.append((out, position, eval(sweep.weight(sweep.tap), here)))
    return found
