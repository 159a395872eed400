"""A module's calls as programs, with all that its forward reads and returns."""
