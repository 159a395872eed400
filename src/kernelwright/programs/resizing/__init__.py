"""The same program at other sizes."""
