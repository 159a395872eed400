"""Other forms of the same computation."""
