"""What an escape would touch: files, a process, sockets, shared memory and a variable.

All of it lies in one folder, or belongs to one process, and is made for the attacks alone.
"""

import ctypes
import hashlib
import os
import resource
import secrets
import socket
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

VARIABLE = "KERNELWRIGHT_CANARY"
_libc = ctypes.CDLL(None, use_errno=True)
_libc.shmat.restype = ctypes.c_void_p
_NEW_SEGMENT, _REMOVE = 0o1600, 0


class Canaries:
    """Made in an empty folder; use as a context manager."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._secret = secrets.token_hex(12)
        os.environ[VARIABLE] = self._secret
        self._variable = ctypes.create_string_buffer(self._secret.encode())
        self._segment = _libc.shmget(0, 4096, _NEW_SEGMENT)
        ctypes.memmove(_libc.shmat(self._segment, None, 0), self._variable, 24)
        self._listeners = self._made_listeners()
        self._renew()

    def __enter__(self) -> "Canaries":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for listener in self._listeners.values():
            listener.close()
        _libc.shmctl(self._segment, _REMOVE, None)

    @property
    def facts(self) -> dict[str, Any]:
        """What a candidate is told, so that it need not guess: no secrets."""
        paths = {name: str(self._place / name) for name in ("file", "program", "folder", "empty")}
        names = {name: each.getsockname() for name, each in self._listeners.items()}
        return {
            **paths,
            "root": str(Path(__file__).parents[3] / ".git"),
            "temporary": tempfile.gettempdir(),
            "pid": self._process.pid,
            "host": os.getpid(),
            "address": ctypes.addressof(self._variable),
            "port": names["port"][1],
            "datagram_port": names["datagram_port"][1],
            "stream": names["stream"],
            "datagram": names["datagram"],
            "abstract": names["abstract"][1:].decode(),
            "abstract_datagram": names["abstract_datagram"][1:].decode(),
            "shared_memory": self._segment,
        }

    def changes(self) -> list[str]:
        """What was touched since the last look; all of it is made anew then."""
        found = self._changed_files() + self._changed_process() + self._visits()
        if found:
            self._process.kill()
            self._process.wait()
            self._renew()
        return found

    def is_told(self, text: str) -> bool:
        """Whether a text has a secret in it."""
        return self._secret in text or "LEAKED" in text

    # -- files and the process

    def _renew(self) -> None:
        self._place = self._folder / secrets.token_hex(4)
        self._place.mkdir(mode=0o700)
        for name, mode in (("file", 0o600), ("program", 0o755)):
            path = self._place / name
            path.write_text(self._secret)
            path.chmod(mode)
            os.setxattr(path, "user.canary", b"0")
        for name in ("folder", "empty"):
            (self._place / name).mkdir(mode=0o700)
        (self._place / "folder" / f"named_{self._secret}").touch()
        self._process = subprocess.Popen(["sleep", "86400"])
        self._files, self._facts = self._seen_files(), self._seen_process()

    def _seen_files(self) -> dict[str, dict[str, object]]:
        return {
            str(path.relative_to(self._place)): _description(path)
            for path in (self._place, *self._place.rglob("*"))
        }

    def _changed_files(self) -> list[str]:
        now = self._seen_files()
        found = [f"{name} is gone" for name in self._files.keys() - now.keys()]
        found += [f"{name} is new" for name in now.keys() - self._files.keys()]
        for name in self._files.keys() & now.keys():
            was, is_now = self._files[name], now[name]
            found += [f"{name}: another {what}" for what in was if was[what] != is_now[what]]
        return sorted(found)

    def _seen_process(self) -> dict[str, object]:
        pid = self._process.pid
        with suppress(OSError):
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            return {
                "state": "runs" if state in "SRDI" else state,
                "niceness": os.getpriority(os.PRIO_PROCESS, pid),
                "limit of files": resource.prlimit(pid, resource.RLIMIT_NOFILE),
                "cores": os.sched_getaffinity(pid),
                "policy": os.sched_getscheduler(pid),
            }
        return {"state": "gone"}

    def _changed_process(self) -> list[str]:
        now = self._seen_process()
        changed = [what for what in self._facts if now.get(what) != self._facts[what]]
        return [f"the process has another {what}" for what in changed]

    # -- sockets

    def _made_listeners(self) -> dict[str, socket.socket]:
        stem = f"kernelwright-{secrets.token_hex(4)}"
        stream, datagram = socket.SOCK_STREAM, socket.SOCK_DGRAM
        wanted: dict[str, tuple[int, int, Any]] = {
            "port": (socket.AF_INET, stream, ("127.0.0.1", 0)),
            "datagram_port": (socket.AF_INET, datagram, ("127.0.0.1", 0)),
            "stream": (socket.AF_UNIX, stream, str(self._folder / "stream")),
            "datagram": (socket.AF_UNIX, datagram, str(self._folder / "datagram")),
            "abstract": (socket.AF_UNIX, stream, f"\0{stem}"),
            "abstract_datagram": (socket.AF_UNIX, datagram, f"\0{stem}-datagram"),
        }
        made = {}
        for name, (family, kind, address) in wanted.items():
            made[name] = socket.socket(family, kind)
            made[name].bind(address)
            made[name].setblocking(False)
            if kind == stream:
                made[name].listen()
        return made

    def _visits(self) -> list[str]:
        found = []
        for name, listener in self._listeners.items():
            with suppress(BlockingIOError):
                if listener.type == socket.SOCK_STREAM:
                    listener.accept()[0].close()
                else:
                    while listener.recv(100):
                        found.append(f"a datagram came to {name}")
                found.append(f"a visitor came to {name}")
        return sorted(set(found))


def _description(path: Path) -> dict[str, object]:
    status = os.lstat(path)
    content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
    return {
        "mode": oct(status.st_mode),
        "owner": (status.st_uid, status.st_gid),
        "number of links": status.st_nlink,
        "size": status.st_size,
        "time of change": status.st_mtime_ns,
        "time of attributes": status.st_ctime_ns,
        "text": hashlib.sha256(content).hexdigest(),
        "extended attributes": sorted(os.listxattr(path, follow_symlinks=False)),
    }
