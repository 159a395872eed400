"""Learning from verdicts: answers are written or read from a pool, judged, and rewarded.

`run` is the entry, `recipe` its settings. `rollout` writes answers, `practice` has them judged,
`credit` turns rewards into advantages, `learning` takes the steps of the optimiser.
"""
