"""The file of a candidate, which the host writes and a guest reads."""

import secrets
from pathlib import Path

_WORDS = ("model", "kernels", "fused", "layers", "ops", "triton", "net", "block", "new", "fast")
"""A candidate's file has one of these names: the name does not tell who loads the file."""


def write(folder: Path, number: int, source: str) -> Path:
    """Writes a candidate's text into a guest's folder, under a name as users give, and returns the
    path.

    Raises:
        FileExistsError: something is there already.
    """
    words = secrets.choice(_WORDS), secrets.choice(_WORDS)
    path = folder / f"{words[0]}_{words[1]}{number}.py"
    # "x" follows no link, should a guest without Landlock have left one. A lone surrogate is
    # written too: the guest's Python refuses the file.
    with open(path, "x", encoding="utf-8", errors="surrogatepass") as file:
        file.write(source)
    return path
