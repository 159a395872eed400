"""The text of an optimized.py: constructor, forward, guards."""
