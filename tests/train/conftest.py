"""Tests of training: tiny models, one thread (many would wait for one another)."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A tiny policy that wavers, and the file of its programs."""
    from rl_runs import make_programs, save_policy, write_programs

    folder, programs = tmp_path_factory.mktemp("made"), make_programs()
    return save_policy(folder / "model", programs), write_programs(folder / "p.jsonl", programs)
