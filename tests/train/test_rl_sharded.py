"""Weights in shards, by FSDP: learning is that of one process, and what is written is whole."""

import json

import pytest
import torch
from rl_runs import make_recipe, records, run
from safetensors.torch import load_file
from sft_runs import run_in_two
from test_rl_served import served

DRPO = {"loss": "drpo", "reward": "log_speed"}
SHARDED = {
    "ACCELERATE_USE_FSDP": "true",
    "FSDP_VERSION": "2",
    "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP",
    "FSDP_RESHARD_AFTER_FORWARD": "true",
    "FSDP_CPU_RAM_EFFICIENT_LOADING": "false",
    "FSDP_STATE_DICT_TYPE": "FULL_STATE_DICT",
}
"""What `accelerate launch --config_file recipes/sft/fsdp.yaml` sets."""

SCRIPT = """
import json, sys
import torch
from accelerate.state import PartialState
from accelerate.utils import DistributedType
torch.set_num_threads(1)
begun = PartialState.__init__

def with_shards(self, *args, **kwargs):  # which accelerate does not make on a CPU
    begun(self, *args, **kwargs)
    if self.distributed_type is DistributedType.MULTI_CPU:
        self.__dict__["distributed_type"] = DistributedType.MULTI_XPU

PartialState.__init__ = with_shards
from pathlib import Path
from rl_runs import make_recipe, run
from kernelwright.train.rl.trainer import RolloutTrainer
step = RolloutTrainer.training_step

def checked(self, model, *args, **kwargs):
    parameter = next(model.parameters())
    assert 2 * parameter.to_local().numel() == parameter.numel(), "it is not sharded"
    return step(self, model, *args, **kwargs)

RolloutTrainer.training_step = checked
recipe = make_recipe(*sys.argv[1:3], **json.loads(sys.argv[4]))
run(recipe, Path(sys.argv[3]), resume=Path(sys.argv[3]).exists())
"""


def tables(server, folder, steps):
    return {
        "rollouts": {"policy": server.url, "served": str(folder), "programs": 3, "group": 4},
        "objective": DRPO,
        "validation": {"every_steps": 100, "programs": 1},
        "checkpoints": {"every_steps": 1},
        "budget": {"steps": steps},
    }


def run_sharded(made, folder, changes):
    """Two processes on a CPU, each with half of every weight."""
    run_in_two(folder.parent, SCRIPT, *made, folder, json.dumps(changes), **SHARDED)


@pytest.mark.slow
def test_shards_learn_as_one_process_does_and_go_on_from_a_checkpoint(made, tmp_path):
    whole, folder = tmp_path / "whole", tmp_path / "run"
    with served(tmp_path / "served") as server:
        run(make_recipe(*made, **tables(server, tmp_path / "served", 1)), whole)
        run_sharded(made, folder, tables(server, tmp_path / "served", 1))
        ours, theirs = (load_file(each / "last" / "model.safetensors") for each in (folder, whole))
        run_sharded(made, folder, tables(server, tmp_path / "served", 2))
    parts = records(folder, "part")
    assert [(part["processes"], part["from_step"]) for part in parts] == [(2, 0), (2, 1)]
    (first, second), (wanted,) = records(folder, "rl_step"), records(whole, "rl_step")
    for name in ("loss", "grad_norm"):
        assert first[name] == pytest.approx(wanted[name], rel=1e-3)
    assert second["step"] == 2
    assert ours.keys() == theirs.keys(), "what is tied is written once"
    before = load_file(made[0] / "model.safetensors")
    for name, value in ours.items():
        assert value.dtype is torch.bfloat16
        assert not torch.equal(value, before[name].bfloat16())
        is_equal = torch.isclose(value.float(), theirs[name].float(), atol=1e-4, rtol=1e-2)
        assert is_equal.float().mean() > 0.98, "but where a gradient's sign is rounding"
    served_ones = load_file(tmp_path / "served" / "model.safetensors")
    assert {each.dtype for each in served_ones.values()} == {torch.bfloat16}
    assert served_ones.keys() == ours.keys()


LEAVING = """
import atexit, sys
from pathlib import Path
import torch

def say():  # runs last
    (Path(sys.argv[1]) / str(process.process_index)).write_text(str(dist.is_initialized()))

atexit.register(say)
dist = torch.distributed
from kernelwright.train.process import this_process
process = this_process()
assert dist.is_initialized() and process.num_processes == 2
"""


@pytest.mark.slow
def test_processes_leave_each_other_before_they_end(tmp_path):
    """Otherwise gloo's threads can abort a process whose work is done."""
    run_in_two(tmp_path, LEAVING, tmp_path, **SHARDED)
    assert [(tmp_path / name).read_text() for name in "01"] == ["False", "False"]
