"""Settings of every test of the backend."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _reset():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()
