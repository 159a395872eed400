"""Text files that a user names: UTF-8, or an error with the line."""

import hashlib
import unicodedata
from pathlib import Path

from kernelwright.core.errors import UsageError, file_error

REMEDY = "save the file as UTF-8"


def read_text(path: Path) -> str:
    """The text of a UTF-8 file.

    Raises:
        UsageError: the file cannot be read, or a line of it is not UTF-8; names both.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise file_error(error) or error from error
    return decoded(content, path)


def decoded(content: bytes, path: Path, *, line: int = 1) -> str:
    """Bytes of a file as text.

    Args:
        line: the number of the first line of `content` in the file.

    Raises:
        UsageError: a line is not UTF-8.
    """
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line += content.count(b"\n", 0, error.start)
        byte = content[error.start]
        raise UsageError(
            f"this line is not UTF-8: byte 0x{byte:02x}", file=str(path), line=line, remedy=REMEDY
        ) from error


def encodable(text: str) -> str:
    """The text with replacement characters for lone surrogates, which UTF-8 does not have."""
    return "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text)


def digest(text: str) -> str:
    """A digest of a text, 16 hexadecimal digits. Lone surrogates count as they are."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


_ESCAPED = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode categories: control codes, marks of direction, lone surrogates, ends of lines."""


def printable(text: str, limit: int) -> str:
    """Text of a candidate, safe for a terminal and for UTF-8.

    Args:
        limit: characters that are kept.

    Returns:
        The text, with escapes such as "\\x1b" for control codes, marks of direction and lone
        surrogates. Tabs and ends of lines stay.
    """
    text = text[:limit]
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character.encode("unicode_escape").decode()
        if unicodedata.category(character) in _ESCAPED and character not in "\n\t"
        else character
        for character in text
    )
