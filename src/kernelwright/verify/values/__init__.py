"""The comparison of outputs with the float64 reference. `compare` decides by the allowed error.
`second_look` finds out whether rounding explains a small mismatch."""
