"""Skeletons of programs, drawn exactly uniformly, and the choices of their calls."""
