"""What reaches PyTorch's attention by lengths; tests/gpu has the real one."""

import pytest
import torch

pytest.importorskip("trl", reason="needs the extra train")

from kernelwright.policy.embedded import fresh_model
from kernelwright.train import attention


@pytest.fixture
def asked(monkeypatch):
    """(dtype, shape) of queries, keys and values, call by call."""
    calls = []

    def fake(query, key, value, *_, **options):
        calls.append([(each.dtype, tuple(each.shape)) for each in (query, key, value)])
        assert options["window_size"] == (-1, 0), "causal"
        return query

    monkeypatch.setattr(attention, "varlen_attn", fake)
    attention.register()
    return calls


@pytest.mark.parametrize("is_mixed", [True, False])
def test_it_is_asked_in_the_type_that_is_computed_in(asked, is_mixed):
    model = fresh_model(
        512, hidden=64, layers=2, heads=4, kv_heads=2, intermediate=64, max_length=128
    )
    model.set_attn_implementation(attention.NAME)
    lengths = torch.tensor([0, 5, 16], dtype=torch.int32)
    with torch.autocast("cpu", torch.bfloat16, enabled=is_mixed):
        model(
            input_ids=torch.zeros(1, 16, dtype=torch.long),
            cu_seq_lens_q=lengths,
            cu_seq_lens_k=lengths,
            max_length_q=11,
            max_length_k=11,
        )
    dtype = torch.bfloat16 if is_mixed else torch.float32
    assert asked == [[(dtype, (16, 4, 16))] * 3] * 2
