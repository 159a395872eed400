"""Exact identities that drop work which the original program does."""
