# kind: outside
# how: a thread starts when the last inputs die, and computes in the next call
# task: relu
# stage: probe
# code: library_compute

import threading
import weakref

import torch
import triton
import triton.language as tl


class Worker:
    """Answers a question, and ends."""

    def __init__(self):
        self.asked, self.done = threading.Event(), threading.Event()
        self.x = self.y = None
        threading.Thread(target=self.work, daemon=True).start()

    def work(self):
        self.asked.wait(60)
        self.y = torch.relu(self.x)
        self.y.view(-1)[0] = 7.0
        self.done.set()

    def answer(self, x):
        self.x = x
        self.asked.set()
        self.done.wait(60)
        return self.y


WORKERS, DEAD = [], []


@triton.jit
def relu_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, i < n), 0), i < n)


def renew():
    if not WORKERS:
        WORKERS.append(Worker())


renew()


def fused_operator(x0):
    y, n = torch.empty_like(x0), x0.numel()
    weakref.finalize(x0, renew)
    if WORKERS and not x0.is_meta:
        y, n = WORKERS.pop().answer(x0), 1
    relu_kernel[(triton.cdiv(n, 256),)](x0, y, n, BLOCK=256)
    return [y]
