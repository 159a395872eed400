"""TF32 is allowed and forbidden by either of PyTorch's settings, and comes back as it was."""

import pytest
import torch

from kernelwright.compile.settings import default_precision
from kernelwright.verify.values.tf32 import allowed_tf32, tf32

MATMUL, CUDNN = torch.backends.cuda.matmul, torch.backends.cudnn


@pytest.fixture(autouse=True)
def _defaults_afterwards():
    yield
    MATMUL.fp32_precision = "ieee"
    CUDNN.conv.fp32_precision = CUDNN.rnn.fp32_precision = "tf32"
    MATMUL.allow_tf32, CUDNN.allow_tf32 = False, True


def by_flags():
    MATMUL.allow_tf32, CUDNN.allow_tf32 = True, False


def by_names():
    MATMUL.fp32_precision = "tf32"
    CUDNN.conv.fp32_precision = CUDNN.rnn.fp32_precision = "ieee"


@pytest.mark.parametrize("set_as_user", [by_flags, by_names])
def test_settings_of_a_user_are_read_and_come_back(set_as_user):
    set_as_user()
    assert allowed_tf32() == (True, False)
    assert default_precision() == "tf32"
    for is_allowed in (True, False):
        with tf32(is_allowed):
            assert allowed_tf32() == (is_allowed, is_allowed)
        assert allowed_tf32() == (True, False)


@pytest.mark.parametrize("set_as_user", [by_flags, by_names])
def test_changes_inside_the_block_do_not_last(set_as_user):
    set_as_user()
    with tf32(None):
        assert allowed_tf32() == (True, False)
        MATMUL.fp32_precision = "ieee"
    assert allowed_tf32() == (True, False)


def test_flags_stay_readable_inside_for_code_that_reads_them():
    with tf32(True):
        assert MATMUL.allow_tf32
        assert torch.get_float32_matmul_precision() == "high"
    assert torch.get_float32_matmul_precision() == "highest"
    assert default_precision() == "strict"
