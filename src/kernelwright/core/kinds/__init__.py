"""The kinds of records: a `TypedDict` for each kind of line that the package writes.

`record` names the kind of a line. Fields of `total=False` classes are missing in older records, or
where a run has nothing to say. docs/records.md is generated from these classes.
"""
