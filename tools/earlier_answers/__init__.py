"""Answers that an earlier judge accepted, judged by the judge of this checkout."""
