"""Distributions of a program's inputs, and the ranges of its values that follow from these
distributions."""
