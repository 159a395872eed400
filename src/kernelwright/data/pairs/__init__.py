"""Pairs of a program and a correct answer: written, judged and assembled into a data set."""
