"""Pages and tables, from records alone: no torch, no live objects."""
