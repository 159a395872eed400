"""Skeletons: programs in which only operators, kinds of values and connections are fixed. Skeletons
are drawn exactly uniformly; forms and choices follow."""
