"""Verdicts and times, for tests of several folders."""

from kernelwright.core.verdict import Code, Stage, Timing, Verdict


def timing(ms):
    return Timing(median_ms=ms, low_ms=ms, high_ms=ms, num_samples=9)


def timing_fields(ms):
    return {"median_ms": ms, "low_ms": ms, "high_ms": ms, "num_samples": 30}


def times(**sides_ms):
    return {name: timing(ms) for name, ms in sides_ms.items()}


def verdict(code=Code.OK, *, speedup=None, **facts):
    accepted = code is Code.OK
    usual = {
        "stage": Stage.ACCEPTED if accepted else Stage.COMPARE,
        "message": "", "mode": "pure", "precision": "strict", "device": "test",
    }  # fmt: skip
    if speedup is not None:
        usual["times"] = times(reference=speedup, candidate=1.0)
        usual["speedup_interval"] = (speedup, speedup)
    return Verdict(accepted=accepted, code=code, **usual | facts)
