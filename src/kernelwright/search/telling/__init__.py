"""Messages, progress, records and summary sentences of a search."""
