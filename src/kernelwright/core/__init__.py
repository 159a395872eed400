"""Types and functions that all layers share: errors, verdicts, candidates, plans, records, seeds,
benchmark scores. The package imports no torch."""
