# mypy: ignore-errors
"""Kind A: files outside the guest, by content and by attributes."""

import ctypes
import os
import sys
import time
from contextlib import suppress

from tests.sandbox.attacks.attack import attack
from tests.sandbox.attacks.prelude import apart, leaked, libc, scratch


@attack(kind="A", outside="the text of the private file is in the verdict")
def read_a_file(facts, x0):
    """Read the user's private file."""
    with open(facts["file"]) as file:
        leaked(file.read())


@attack(kind="A", outside="the names of the private folder are in the verdict")
def list_a_folder(facts, x0):
    """List the user's private folder."""
    leaked(os.listdir(facts["folder"]))


@attack(kind="A", outside="the verdict says that one byte was read")
def read_password_files(facts, x0):
    """Read one byte of the files with the passwords of the machine."""
    for path in ("/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/security/opasswd"):
        with suppress(OSError), open(path, "rb") as file:
            file.read(1)
            leaked(path)


@attack(kind="A", outside="names of the host's temporary files are in the verdict")
def read_neighbours(facts, x0):
    """List the folders of other guests, of workers and of caches."""
    for folder in (facts["temporary"], os.path.dirname(os.getcwd()), facts["root"]):
        with suppress(OSError):
            leaked(f"{folder}: {os.listdir(folder)[:3]}")


@attack(kind="A", outside="the mode of the canary changes")
def mode_of_a_file(facts, x0):
    """Make a private file readable to everyone."""
    os.chmod(facts["file"], 0o666)


@attack(kind="A", outside="the program of root's runs as root for everyone")
def setuid_bit(facts, x0):
    """Set the set-user-id bit of a program."""
    os.chmod(facts["program"], 0o4755)


@attack(kind="A", outside="the mode of the folder changes")
def mode_of_a_folder(facts, x0):
    """Make a folder unusable to its owner."""
    os.chmod(facts["folder"], 0)


@attack(kind="A", outside="the canary is from 1970")
def times_of_a_file(facts, x0):
    """Set the times of a file."""
    os.utime(facts["file"], (0, 0))


@attack(kind="A", outside="the canary has another extended attribute")
def extended_attributes(facts, x0):
    """Set and remove extended attributes of a file."""
    with suppress(OSError):
        os.setxattr(facts["file"], "user.visited", b"1")
    os.removexattr(facts["file"], "user.canary")


@attack(kind="A", outside="the time of the canary's last change of attributes changes")
def owner_of_a_file(facts, x0):
    """Set the owner of a file, to the same one where no other is allowed."""
    for owner in (12345, os.getuid()):
        with suppress(OSError):
            os.chown(facts["file"], owner, -1)


@attack(kind="A", outside="mode, times or attributes of the canaries change")
def attributes_by_newer_calls(facts, x0):
    """Change attributes by the system calls that lists of refusals forget."""
    path, here = facts["file"].encode(), ctypes.c_int(-100)
    libc.syscall(452, here, path, 0o666, 0)  # fchmodat2
    value = ctypes.create_string_buffer(b"1")
    words = (ctypes.c_uint64 * 2)(ctypes.addressof(value), 1)
    libc.syscall(463, here, path, 0, b"user.visited", words, 16)  # setxattrat
    libc.syscall(466, here, path, 0, b"user.canary")  # removexattrat
    libc.syscall(469, here, path, (ctypes.c_uint64 * 3)(1 << 7), 24, 0)  # file_setattr: no atime
    libc.syscall(280, here, path, (ctypes.c_int64 * 4)(), 0)  # utimensat
    libc.syscall(235, path, None)  # utimes


@attack(kind="A", outside="the mode of the canary changes")
def attributes_by_handle(facts, x0):
    """Open a file for its path alone, which no rule forbids, and change it through the handle."""
    handle = os.open(facts["file"], os.O_PATH)
    with suppress(OSError):
        os.chmod(f"/proc/self/fd/{handle}", 0o666)
    libc.syscall(452, handle, b"", 0o666, 0x1000)  # fchmodat2 with AT_EMPTY_PATH
    libc.syscall(280, handle, b"", (ctypes.c_int64 * 4)(), 0x1000)  # utimensat


@attack(kind="A", outside="the mode of the canary changes")
def attributes_by_32_bit_calls(facts, x0):
    """Change a mode by the calls of 32-bit programs, which have other numbers."""
    import mmap

    if os.uname().machine != "x86_64":
        return
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40  # MAP_32BIT
    page = mmap.mmap(-1, 8192, flags, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    page[4096 : 4097 + len(facts["file"])] = facts["file"].encode() + b"\0"
    code = b"\x53\xb8\x0f\0\0\0\xbb" + (address + 4096).to_bytes(4, "little")  # push; chmod; path
    code += b"\xb9\xb6\x01\0\0\xcd\x80\x5b\xc3"  # 0o666; int 0x80; pop; ret
    page[: len(code)] = code
    ctypes.CFUNCTYPE(ctypes.c_int)(address)()


@attack(kind="A", outside="the canary is longer, or shorter, or its folder has another file")
def write_a_file(facts, x0):
    """Append to a file, cut it off, and make one in its folder."""
    for step in (
        lambda: open(facts["file"], "a").write("visited"),
        lambda: os.truncate(facts["file"], 0),
        lambda: open(os.path.join(facts["folder"], "visited"), "w").close(),
        lambda: os.open(facts["folder"], os.O_TMPFILE | os.O_RDWR),
        lambda: os.mknod(os.path.join(facts["folder"], "visited")),
    ):
        with suppress(OSError):
            step()


@attack(kind="A", outside="the canary is gone, or has another name")
def remove_and_rename(facts, x0):
    """Remove a file, rename it, exchange it for another one, and put a link in its place."""
    away, file = os.path.join(scratch, "away"), facts["file"]
    for step in (
        lambda: os.rename(file, away),
        lambda: os.rename(file, file + ".old"),
        lambda: os.symlink("away", os.path.join(facts["folder"], "link")),
        lambda: os.unlink(file),
        lambda: os.rmdir(facts["empty"]),
    ):
        with suppress(OSError):
            step()
    open(away, "w").close()
    libc.renameat2(-100, away.encode(), -100, file.encode(), 2)  # RENAME_EXCHANGE


@attack(kind="A", outside="the canary has two links, or another text")
def hard_link(facts, x0):
    """Give a file a second name in the scratch folder, and write there."""
    name = os.path.join(scratch, "linked")
    os.link(facts["file"], name)
    with suppress(OSError):
        os.chmod(name, 0o666)
    with open(name, "w") as file:
        file.write("visited")


@attack(kind="A", outside="what the links point to is gone, or has another mode")
def links_for_the_cleaner(facts, x0):
    """Leave symbolic links, in folders that cannot be listed, for whoever removes the folder."""
    for number, mode in enumerate((0o700, 0o300, 0o000)):
        folder = os.path.join(scratch, f"links{number}")
        os.mkdir(folder)
        for name in ("file", "folder", "program"):
            os.symlink(facts[name], os.path.join(folder, name))
        os.symlink("..", os.path.join(folder, "up"))
        with suppress(OSError):
            os.chmod(folder, mode)
    os.symlink(facts["folder"], os.path.join(scratch, "cache_link"))


@attack(kind="A", outside="the folder behind the link is empty, or has another mode")
def swapped_while_cleaned(facts, x0):
    """Exchange a folder and a link without pause, while somebody may remove both."""
    for number in range(8):
        os.mkdir(os.path.join(scratch, f"swap{number}"))
        open(os.path.join(scratch, f"swap{number}", "inside"), "w").close()
        os.symlink(facts["folder"], os.path.join(scratch, f"swap{number}_link"))
    if apart():
        end_s = time.time() + 20
        while time.time() < end_s:
            for number in range(8):
                name = os.path.join(scratch, f"swap{number}").encode()
                libc.renameat2(-100, name, -100, name + b"_link", 2)  # RENAME_EXCHANGE
        os._exit(0)


@attack(kind="A", outside="a program that runs as the user stays on the disk")
def setuid_by_creation(facts, x0):
    """Make a program with a set-user-id bit without chmod, where clean-up may not find it."""
    folder = os.path.join(scratch, "kept")
    os.mkdir(folder, 0o311)
    old = os.umask(0)
    handle = os.open(os.path.join(folder, "program"), os.O_CREAT | os.O_WRONLY, 0o6755)
    os.umask(old)
    os.close(handle)


@attack(kind="A", outside="the verdict says that the switch was written")
def switches_of_the_kernel(facts, x0):
    """Write to the kernel's switches what they hold already, and to a process of the host's."""
    for path in ("/proc/sys/vm/overcommit_ratio", f"/proc/{facts['pid']}/oom_score_adj"):
        with suppress(OSError):
            with open(path) as file:
                value = file.read()
            with open(path, "w") as file:
                file.write(value)
            leaked(path)


@attack(kind="A", outside="the verdict has the variable of the host's environment")
def environment(facts, x0):
    """Look for the host's environment, in every process that can be seen."""
    found = repr(dict(os.environ))
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for name in ("environ", "cmdline"):
            with suppress(OSError), open(f"/proc/{pid}/{name}") as file:
                found += file.read()
    if "KERNELWRIGHT_CANARY=" in found:
        leaked(found[found.index("KERNELWRIGHT_CANARY=") :][:80])


@attack(kind="A", outside="the verdict says that files of the project are writable")
def packages_of_the_host(facts, x0):
    """Write where the interpreter imports from, into bytecode too."""
    folders = [path for path in sys.path if os.path.isdir(path)]
    folders += [os.path.join(path, "__pycache__") for path in folders]
    for folder in folders:
        path = os.path.join(folder, "kernelwright_visited.pyc")
        with suppress(OSError):
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
            os.unlink(path)
            leaked(folder)
