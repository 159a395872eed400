"""Training of kernel writers: supervised on pairs here, from verdicts in `train.rl`.

`run` is the entry of supervised training, `recipe` its settings, `objectives` the losses.
`elsewhere` and `verl` give our rewards to trainers of other libraries.
"""
