"""Operator forms: the ways to call an operator, by ranks, dtypes and named sizes of operands.
`synth` draws calls from these forms."""
