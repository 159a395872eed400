"""Helpers of `lowering`: objects and unusual dtypes in a module's inputs and results, and messages
for modules that cannot be captured."""
