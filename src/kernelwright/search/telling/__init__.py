"""The output of a search: steps, progress, records, sentences."""
