"""The names of policies. The file imports nothing heavy, so the command line can check names before
torch loads."""

TEACHER, EMBEDDED = "teacher", "embedded"
PATH, URL = "hf:", "openai:"
"""The prefixes of a model's folder, and of URL#model."""
FORMS = "teacher, embedded, hf:PATH or openai:URL#model"
DEFAULT = f"{TEACHER},{EMBEDDED}"
"""The policies of all verbs and of `kernelwright.optimize` if the user names no policy."""
DEFAULT_MODE = "hybrid"
"""The mode of all verbs if the user names no mode, except for suites that define a mode."""


def are_policies(spec: str) -> bool:
    """Whether all names in `spec`, separated by commas, have the form of a policy's name."""
    names = [name.strip() for name in spec.split(",")]
    return all(name in (TEACHER, EMBEDDED) or name.startswith((PATH, URL)) for name in names)
