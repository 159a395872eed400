"""Parses Python text from outside, such as a language model's, within bounds of time and memory."""

import ast
import re
import warnings
from functools import lru_cache

MAX_SOURCE = 1 << 20
"""Characters. The longest files of honest kernels have some ten thousand."""
MAX_TOKENS = 200_000
"""Words and signs. The tree takes up to 2 KiB of memory for each, the static rules some 20 us.
Half a MiB of ordinary kernels has no more."""
MAX_SHARED = 1 << 16
"""Characters of a text whose tree is kept: trees of long texts take too much memory."""
_TOKEN = re.compile(r"\w+|[^\w ]")


def syntax_tree(text: str) -> ast.Module:
    """The tree of any text, within bounds of time and memory.

    Callers share the tree of a text that is asked for several times, so nobody may change a tree.

    Raises:
        SyntaxError: the text is not Python, is too long or nested too deeply, or has characters
            that no file of Python's has.
    """
    _check_size(text)
    try:
        text.encode()
        return _shared(text) if len(text) <= MAX_SHARED else _parsed(text)
    except SyntaxError as error:
        error.lineno = error.lineno or 1
        raise
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise _refused("a lone surrogate, or bytes that are not UTF-8", line) from None
    except ValueError as error:  # a NUL character
        raise _refused(str(error)) from error
    except (RecursionError, MemoryError, SystemError) as error:
        raise _refused("nested too deeply") from error


def _refused(message: str, line: int = 1) -> SyntaxError:
    return SyntaxError(message, (None, line, None, None))


def _check_size(text: str) -> None:
    if len(text) > MAX_SOURCE:
        raise _refused(f"more than {MAX_SOURCE} characters")
    # No text has more words and signs than characters, so short texts need no counting.
    if len(text) > MAX_TOKENS and sum(1 for _ in _TOKEN.finditer(text)) > MAX_TOKENS:
        raise _refused(f"more than {MAX_TOKENS} words and signs")


def _parsed(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a text of many lines would have as many
        return _tree(text)


# A text that a model wrote is read, checked, and given its plans in a row.
_shared = lru_cache(4)(_parsed)


def _tree(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except SystemError:  # some Pythons count the depth of all threads' trees as one (gh-106905)
        return ast.parse(text)
