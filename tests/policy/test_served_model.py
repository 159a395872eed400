"""A real server with a tiny untrained model: `transformers serve`, where it is installed."""

import pytest

from kernelwright.policy.endpoint import Endpoint, Message


@pytest.mark.slow
def test_a_served_model_answers(served_model):
    answer = Endpoint.parse(served_model).complete([Message("user", "hello")], max_tokens=5)
    assert isinstance(answer, str)
