"""Guest side: Triton's cache of compiled kernels, read from several folders, written to one.

A guest only reads the folders of others: kernels of our own, launchers, and kernels that a compile
worker made from the very candidate that is loaded. All other kernels are compiled into a folder of
the candidate's own. Nobody knows the folder's name beforehand, so no candidate can leave a kernel
there for the next one.
"""

import json
import os
from pathlib import Path
from typing import Any

from triton import knobs
from triton.runtime.cache import FileCacheManager


class LayeredCache(FileCacheManager):  # type: ignore[misc]
    """Triton makes one for each kernel and launcher, by its key."""

    folder = Path()
    """Where it is written."""
    is_shared = False
    """Other guests write there too: all run sources of our own."""
    ours: tuple[Path, ...] = ()
    """Kernels and launchers made from sources of our own, which are read first."""
    theirs: Path | None = None
    """Kernels made from the source of the candidate that is loaded."""

    def __init__(self, key: str, override: bool = False, dump: bool = False) -> None:
        if override or dump:
            super().__init__(key, override, dump)
            return
        self.key = key
        self.cache_dir = str(self.folder / key)
        self.lock_path = f"{self.cache_dir}/lock"
        os.makedirs(self.cache_dir, exist_ok=True)

    def put(self, data: bytes | str, filename: str, binary: bool = True) -> str:
        """Writes a file at once, where no other process looks for it. Triton's way, by a folder of
        its own for each of a kernel's eight files, takes 5 ms a kernel."""
        if self.is_shared:
            return str(super().put(data, filename, binary))
        path = Path(self.cache_dir, filename)
        path.write_bytes(data if isinstance(data, bytes) else str(data).encode())
        return str(path)

    def get_file(self, filename: str) -> str | None:
        # A library in a candidate's folder would run in this process, outside of any kernel.
        is_library = filename.endswith(".so")
        theirs = () if self.theirs is None or is_library else (self.theirs,)
        for folder in (*self.ours, *theirs, self.folder):
            if (path := folder / self.key / filename).exists():
                return str(path)
        return None

    def get_group(self, filename: str) -> dict[str, str] | None:
        """Returns the files of one kernel, by name. They lie beside the file that lists them, which
        may have moved since it was written."""
        listed = self.get_file(f"__grp__{filename}")
        if listed is None:
            return None
        try:
            names: Any = json.loads(Path(listed).read_text())["child_paths"]
            paths = {name: Path(listed).parent / Path(name).name for name in names}
        except (ValueError, KeyError, TypeError):
            return None  # as if it were not there
        return {name: str(path) for name, path in paths.items() if path.exists()}


def install(folder: Path, ours: list[Path], *, is_shared: bool) -> None:
    """Makes Triton use this cache in this process."""
    LayeredCache.folder, LayeredCache.ours = folder, tuple(ours)
    LayeredCache.is_shared = is_shared
    knobs.cache.manager_class = LayeredCache


def renew(name: str, theirs: str | None) -> None:
    """Takes the folders of the candidate that is loaded next: its own folder, and kernels that were
    compiled from it before."""
    if not LayeredCache.is_shared:
        LayeredCache.folder = LayeredCache.folder.with_name(name)
    LayeredCache.theirs = None if theirs is None else Path(theirs)
