"""The figures of `synth`: uniformity, coverage, speed."""
