"""Operator records: shapes, dtypes, FLOPs, bytes, ATen names and traits, each fact once. `forms`
says how operators are called, `ranges` how results are spread."""
