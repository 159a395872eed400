"""Run in a process of its own by test_fleet.py: workers on a Ray cluster of two nodes tune
fragments, and one node is killed after the first answer."""

import time

import ray
from ray.cluster_utils import Cluster

from kernelwright.library.entry import FRAGMENT
from kernelwright.ops.operator import TensorType
from kernelwright.programs.build import Builder
from kernelwright.programs.text import to_text
from kernelwright.search.fleet import Workers, tuned_elsewhere
from kernelwright.timing.deadline import Deadline

NODE = {"object_store_memory": 80 << 20}


def text(rows):
    b = Builder()
    [x] = b.call("exp", input=b.input(TensorType((rows, 16))))
    [x] = b.call("tanh", input=x)
    return to_text(b.program([x]))


def main():
    head = {"num_cpus": 0, "include_dashboard": False, **NODE}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    cluster.add_node(num_cpus=1, **NODE)
    doomed = cluster.add_node(num_cpus=1, **NODE)
    texts = [text(rows) for rows in range(8, 14)]
    jobs = [{"text": t, "scope": FRAGMENT, "limit": 2, "seed": 0} for t in texts]
    rules = {"device": "cpu", "precision": "strict", "mode": "hybrid"}
    deadline = Deadline(clock_s=time.monotonic() + 200)
    tuned = []
    with Workers(number=2, cluster=cluster.address).executor(rules) as workers:
        for answer in tuned_elsewhere(workers, jobs, deadline):
            assert not isinstance(answer, str), answer
            tuned.append(answer.key.program)
            if len(tuned) == 1:
                cluster.remove_node(doomed, allow_graceful=False)
    ray.shutdown()  # the driver leaves before its head node
    cluster.shutdown()
    assert sorted(tuned) == sorted(texts), len(tuned)


if __name__ == "__main__":
    main()
