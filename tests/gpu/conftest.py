"""Tests of this folder need a GPU."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="module")
def _gpu():
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
