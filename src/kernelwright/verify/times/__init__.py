"""Measured times of candidates, and the checks that show whether a guest's times are plausible."""
