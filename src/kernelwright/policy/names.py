"""Policies as users name them; light, so that the command line can tell before anything loads."""

TEACHER, EMBEDDED = "teacher", "embedded"
PATH, URL = "hf:", "openai:"
"""Before the folder of a model, and before URL#model."""
FORMS = "teacher, embedded, hf:PATH or openai:URL#model"
DEFAULT = f"{TEACHER},{EMBEDDED}"
"""The policy of every verb and of `kernelwright.optimize` where the user names none."""
DEFAULT_MODE = "hybrid"
"""The mode of every verb where the user names none, but for suites that define their own."""


def are_policies(spec: str) -> bool:
    """Whether all that `spec` names, separated by commas, have the form of a policy."""
    names = [name.strip() for name in spec.split(",")]
    return all(name in (TEACHER, EMBEDDED) or name.startswith((PATH, URL)) for name in names)
