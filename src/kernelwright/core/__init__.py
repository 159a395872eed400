"""Contracts every layer shares: errors, verdicts, candidates, records, seeds. No torch."""
