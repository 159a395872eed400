"""`kernelwright train`: supervised training, and learning from verdicts."""
