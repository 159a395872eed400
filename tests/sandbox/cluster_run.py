"""Run in a process of its own by test_ray_executor.py: a Ray cluster of three nodes on this
machine judges many candidates, and one node is killed in mid-run."""

import sys
from pathlib import Path

from ray.cluster_utils import Cluster

from kernelwright.sandbox.workers.executor import Factory
from kernelwright.sandbox.workers.ray import ActorShare, RayExecutor
from kernelwright.verify.many.jobs import Job
from kernelwright.verify.many.recipe import JudgeRecipe
from kernelwright.verify.many.run import judge_many

NODE = {"object_store_memory": 80 << 20}


class Deadly(RayExecutor):
    """Kills a node once workers of both have answered; notes after how many answers."""

    def run(self, jobs):
        pids, self.killed_after = set(), None
        for num_answers, done in enumerate(super().run(jobs), 1):
            pids.add(done.answer["worker"])
            if len(pids) == 2 and self.killed_after is None:
                self.cluster.remove_node(self.doomed, allow_graceful=False)
                self.killed_after = num_answers
            yield done


def main(folder: Path, num_jobs: int) -> int:
    head = {"num_cpus": 0, "include_dashboard": False, **NODE}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    cluster.add_node(num_cpus=1, **NODE)
    factory = Factory("sample_workers:verdicts", {"pause_s": 0.1})
    executor = Deadly(factory, 2, ActorShare(num_cpus=1), address=cluster.address)
    executor.cluster, executor.doomed = cluster, cluster.add_node(num_cpus=1, **NODE)
    jobs = [Job(id=f"job-{n}", reference=f"{n}\n", candidate="text") for n in range(num_jobs)]
    judge_many(jobs, JudgeRecipe(device="cpu", timing=False), folder / "run", executor)
    cluster.shutdown()
    return executor.killed_after


if __name__ == "__main__":
    sys.stdout.write(f"killed after {main(Path(sys.argv[1]), int(sys.argv[2]))}\n")
