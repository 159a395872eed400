"""The program sampler, measured: uniformity, coverage, speed, and whether programs run."""
