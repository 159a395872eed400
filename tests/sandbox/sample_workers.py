"""Workers for the executors' tests: they note each job they begin, and break as jobs ask."""

import os
import signal
import time
from pathlib import Path

from kernelwright.core.errors import UsageError


class Squares:
    def __init__(self, folder: str, pause_s: float) -> None:
        self.folder, self.pause_s = Path(folder), pause_s

    def begin(self, job):
        (self.folder / f"begun-{job['n']}").touch()

    def run(self, job):
        """Squares job["n"] once it has begun; "dies": times a worker dies of it; so "raises"."""
        assert (self.folder / f"begun-{job['n']}").exists()
        tries = 1 + len(list(self.folder.glob(f"{job['n']}-*")))
        (self.folder / f"{job['n']}-{tries}").write_text(str(os.getpid()))
        time.sleep(self.pause_s)
        if tries <= job.get("dies", 0):
            os.kill(os.getpid(), signal.SIGKILL)
        if tries <= job.get("raises", 0):
            raise RuntimeError("broken on our side")
        if tries <= job.get("hangs", 0):
            time.sleep(600.0)
        gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        return {"square": job["n"] ** 2, "pid": os.getpid(), "gpu": gpu}

    def close(self) -> None:
        (self.folder / f"closed-{os.getpid()}").touch()


def squares(folder: str, pause_s: float = 0.0) -> Squares:
    return Squares(folder, pause_s)


class Accepts:
    """Accepts every candidate of a batch, as `verify.many.worker` would say it."""

    def __init__(self, pause_s: float) -> None:
        self.pause_s = pause_s

    def begin(self, job) -> None: ...

    def run(self, job):
        time.sleep(self.pause_s)
        verdict = {
            "accepted": True, "stage": "accepted", "code": "ok", "message": "",
            "mode": "pure", "precision": "strict", "device": "none",
        }  # fmt: skip
        found = [{"id": c["id"], "verdict": verdict} for c in job["candidates"]]
        return {"found": found, "stages": {}, "worker": str(os.getpid())}

    def close(self) -> None: ...


def verdicts(pause_s: float) -> Accepts:
    return Accepts(pause_s)


def refuses() -> Squares:
    raise UsageError("no such device")


def breaks() -> Squares:
    raise RuntimeError("no driver")


def dies() -> Squares:
    os._exit(7)
