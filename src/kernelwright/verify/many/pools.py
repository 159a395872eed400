"""Makes the executors of a run of many judgements: judges side by side, one clock owner a GPU."""

import os
from dataclasses import dataclass

from kernelwright.core.errors import UsageError
from kernelwright.sandbox.workers.executor import Executor, Factory
from kernelwright.sandbox.workers.local import LocalExecutor
from kernelwright.timing.clock import gpus
from kernelwright.verify.many.recipe import JudgeRecipe

JUDGES = "kernelwright.verify.many.worker:judges"
CLOCKS = "kernelwright.verify.many.worker:clocks"
CLOCK_SHARE = 0.6
"""The share of a GPU, as Ray counts: above a half, so that a GPU never has two clock owners."""
JUDGES_A_GPU = 16


@dataclass(frozen=True, slots=True)
class Pools:
    judges: Executor
    clock: Executor | None
    is_clock_apart: bool = False
    """Times are taken on GPUs on which nothing trains."""


def local_pools(
    recipe: JudgeRecipe, num_workers: int | None = None, *, num_training: int = 0
) -> Pools:
    """Returns processes of this machine, shared out to its GPUs. By default there is one for each
    core except those of the clock owners, and at most `JUDGES_A_GPU` on a GPU.

    Args:
        num_training: number of GPUs, the first ones, on which a model trains and writes. The model
            would wait for a clock owner beside it. So clock owners use the other GPUs, where there
            are any.
    """
    num_cores = len(os.sched_getaffinity(0))
    cards = gpus() if recipe.device == "cuda" else []
    quiet = cards[num_training:] or cards
    num_clocks = max(1, len(quiet)) if recipe.timing else 0
    most = JUDGES_A_GPU * len(cards) if cards else num_cores
    num_workers = num_workers or max(1, min(num_cores - num_clocks, most))
    threads = max(1, num_cores // num_workers) if recipe.device == "cpu" else 1
    judges = Factory(JUDGES, {"recipe": recipe.to_json(), "num_threads": threads})
    clocks = Factory(CLOCKS, {"recipe": recipe.to_json(), "num_threads": 1})
    clock = LocalExecutor(clocks, num_clocks, gpus=quiet) if recipe.timing else None
    is_apart = 0 < num_training < len(cards)
    return Pools(LocalExecutor(judges, num_workers, gpus=cards), clock, is_apart)


def cluster_pools(recipe: JudgeRecipe, num_workers: int | None, address: str) -> Pools:
    """Returns actors on a Ray cluster: by default a judge for each core, and a clock owner on each
    GPU.

    Args:
        address: of the head node, HOST:PORT, or "auto" on a machine of the cluster.

    Raises:
        UsageError: Ray is not installed, there is no cluster, or it has no GPU for this recipe.
    """
    num_cores, num_gpus = _resources(address, recipe.device)
    from kernelwright.sandbox.workers.ray import ActorShare, RayExecutor

    num_workers = num_workers or max(1, num_cores - num_gpus * recipe.timing)
    if recipe.device == "cuda":
        num_workers = min(num_workers, JUDGES_A_GPU * num_gpus)
    on_gpu = recipe.device == "cuda"
    share = ActorShare(num_gpus=(1.0 - CLOCK_SHARE) / JUDGES_A_GPU if on_gpu else 0.0)
    judges = Factory(JUDGES, {"recipe": recipe.to_json(), "num_threads": 1})
    clocks = Factory(CLOCKS, {"recipe": recipe.to_json(), "num_threads": 1})
    clock = None
    if recipe.timing:
        clock = RayExecutor(clocks, num_gpus, ActorShare(num_gpus=CLOCK_SHARE), address=address)
    return Pools(RayExecutor(judges, num_workers, share, address=address), clock)


def one_a_gpu(
    factory: Factory, device: str, num_workers: int | None = None, cluster: str | None = None
) -> Executor:
    """Returns workers whose times nothing disturbs: one for each GPU, without GPUs one for each
    core.

    Args:
        num_workers: another number of workers.
        cluster: as `address` of `cluster_pools`; None: processes of this machine.

    Raises:
        UsageError: as `cluster_pools`.
    """
    if cluster is None:
        cards = gpus() if device == "cuda" else []
        num_workers = num_workers or len(cards) or len(os.sched_getaffinity(0))
        return LocalExecutor(factory, num_workers, gpus=cards)
    num_cores, num_gpus = _resources(cluster, device)
    from kernelwright.sandbox.workers.ray import ActorShare, RayExecutor

    on_gpu = device == "cuda"
    share = ActorShare(num_gpus=CLOCK_SHARE if on_gpu else 0.0)
    num_workers = num_workers or (num_gpus if on_gpu else max(1, num_cores))
    return RayExecutor(factory, num_workers, share, address=cluster)


def _resources(address: str, device: str) -> tuple[int, int]:
    """(CPU cores, GPUs) of a cluster.

    Raises:
        UsageError: Ray is not installed, there is no cluster, or it has no GPU for this device.
    """
    try:
        from kernelwright.sandbox.workers.ray import resources
    except ModuleNotFoundError as error:
        raise UsageError(
            "a cluster needs Ray", remedy="pip install 'kernelwright[cluster]'"
        ) from error
    num_cores, num_gpus = resources(address)
    if device == "cuda" and not num_gpus:
        raise UsageError("the cluster has no GPU", remedy="use --device cpu")
    return num_cores, num_gpus
