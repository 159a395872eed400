"""The forms in which programs call an operator: which arguments, of which kinds."""
