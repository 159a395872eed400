"""What moves elements in front of a reduction is pulled in its kernels, in every form."""

from collections.abc import Callable

import pytest
from judging import compiled, faults_here_and_at_other_sizes
from sketch import Sketch

from kernelwright.programs.program import Program
from kernelwright.teacher.writer import family, write


def joined_rows() -> Program:
    s = Sketch()
    joined = s.cat(tensors=(s.input(5, 20), s.input(5, 17)), dim=1)
    return s.program(s.layer_norm(joined, normalized_shape=(37,)))


def joined_columns() -> Program:
    s = Sketch()
    return s.program(s.softmax(s.cat(tensors=(s.input(20, 33), s.input(7, 33)), dim=0), dim=0))


def padded() -> Program:
    s = Sketch()
    return s.program(s.relu(s.softmax(s.pad(s.input(3, 7, 30), pad=(2, 3), value=1.0), dim=-1)))


def cut_and_used_again() -> Program:
    s = Sketch()
    x = s.input(6, 9, 16)
    cut = s.slice(x, dim=1, start=2, end=8)
    return s.program(s.mul(s.softmax(s.exp(cut), dim=2), cut), s.sum(x, dim=(2,)))


def joined_channels_in_groups() -> Program:
    s = Sketch()
    joined = s.cat(tensors=(s.input(2, 6, 5, 4), s.input(2, 2, 5, 4)), dim=1)
    return s.program(s.relu(s.group_norm(joined, num_groups=4)))


def joined_batch_statistics() -> Program:
    s = Sketch()
    joined = s.cat(tensors=(s.input(4, 3, 5, 6), s.relu(s.input(4, 5, 5, 6))), dim=1)
    return s.program(s.var(joined, dim=(0, 2, 3)))


def looked_up() -> Program:
    s = Sketch()
    rows = s.index_select(s.input(50, 24), dim=0, index=s.input(11, dtype="int64"))
    return s.program(s.rms_norm(rows, normalized_shape=(24,)))


def viewed_after() -> Program:
    s = Sketch()
    joined = s.cat(tensors=(s.input(4, 12, 10), s.input(4, 12, 10)), dim=2)
    return s.program(s.softmax(s.reshape(joined, shape=(4, 3, 80)), dim=2))


def stacked() -> Program:
    s = Sketch()
    stack = s.stack(tensors=(s.input(5, 20), s.input(5, 20), s.input(5, 20)), dim=2)
    return s.program(s.sum(stack, dim=(2,)))


def picked_halves() -> Program:
    s = Sketch()
    x, places = s.input(6, 30, dtype="bfloat16"), s.input(6, 11, dtype="int64")
    return s.program(s.logsumexp(s.gather(x, dim=1, index=places), dim=(1,)))


def rolled_loss() -> Program:
    s = Sketch()
    rolled = s.roll(s.input(20, 33), shifts=3, dims=1)
    return s.program(s.mse_loss(rolled, s.input(20, 33)))


def long_rows() -> Program:
    s = Sketch()
    return s.program(s.amax(s.flip(s.input(2, 33000), dims=(1,)), dim=(1,)))


PROGRAMS: tuple[Callable[[], Program], ...] = (
    joined_rows, joined_columns, padded, cut_and_used_again, joined_channels_in_groups,
    joined_batch_statistics, looked_up, viewed_after, stacked, picked_halves, rolled_loss,
    long_rows,
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("build", PROGRAMS, ids=lambda build: build.__name__)
def test_what_moves_elements_is_pulled_and_right_in_every_form(build):
    program = build()
    assert family(program) == "reduction"
    by_form = {c.plan[0].loop: c for c in write(program, limit=20)}
    assert {"one_pass", "looped"} <= by_form.keys() or "two_pass" in by_form
    for candidate in by_form.values():
        assert compiled(program, candidate)
    assert faults_here_and_at_other_sizes(program, list(by_form.values())) == []


def test_joined_rows_are_never_in_memory():
    (found,) = write(joined_rows(), limit=1)
    assert found.plan[0].fuses == ("cat", "layer_norm")
    assert found.source.count("torch.empty") == 1


def test_what_a_reduction_has_made_is_not_moved_in_its_kernel():
    s = Sketch()
    moved = s.flip(s.softmax(s.input(5, 20), dim=1), dims=(1,))
    assert family(s.program(s.sum(moved, dim=(1,)))) is None


def test_movement_alone_stays_what_it_was():
    s = Sketch()
    joined = s.cat(tensors=(s.input(5, 20), s.input(5, 17)), dim=1)
    assert family(s.program(s.relu(joined))) == "movement"


def test_the_guard_of_offsets_counts_what_is_pulled_where_it_may_be_more_than_is_read():
    s = Sketch()
    [cut] = write(s.program(s.sum(s.slice(s.input(9, 40), dim=1, step=2), dim=1)), limit=1)
    assert "assert max(x0.numel(), t1.numel()) < 2**31" in cut.source
    s = Sketch()
    joined = s.cat(tensors=(s.input(9, 40), s.input(9, 2)), dim=1)
    [counted] = write(s.program(s.sum(joined, dim=1)), limit=1)
    size = "x0.shape[0] * (x0.shape[1] + x1.shape[1])"
    assert f"assert max(x0.numel(), x1.numel(), t1.numel(), {size}) < 2**31" in counted.source


def test_a_flipped_dimension_that_was_two_follows_other_sizes():
    """Its parts are named in the text: a number would be right at this size alone."""
    s = Sketch()
    x = s.permute(s.input(4, 30, 6, 2), dims=(3, 0, 2, 1))
    flipped = s.flip(s.flatten(x, start_dim=2), dims=(2,))
    program = s.program(s.instance_norm(s.neg(flipped), weight=s.input(4), bias=s.input(4)))
    [candidate] = write(program, limit=1)
    assert "30" not in candidate.source.replace("(4, 30, 6, 2)", "")
    assert faults_here_and_at_other_sizes(program, [candidate]) == []
