"""Copies of a program at other fixed sizes: small sizes for the CPU, odd sizes for the judge."""
