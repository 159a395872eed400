"""Spreads of operator results: range, mean, deviation and share of zeros, computed from the spreads
of the operands."""
