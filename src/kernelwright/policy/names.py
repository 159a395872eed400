"""Policies as users name them; light, so that the command line can tell before anything loads."""

TEACHER, EMBEDDED = "teacher", "embedded"
PATH, URL = "hf:", "openai:"
"""Before the folder of a model, and before URL#model."""
FORMS = "teacher, embedded, hf:PATH or openai:URL#model"
DEFAULT = TEACHER
"""Of `optimize` and `generate`."""
