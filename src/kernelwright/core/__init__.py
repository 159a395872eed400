"""Types and functions that all layers share: errors, verdicts, candidates, plans, records, seeds,
benchmark scores, progress, text files. `kinds` declares the fields of all records. The package
imports no torch."""
