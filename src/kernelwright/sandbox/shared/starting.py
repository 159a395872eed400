"""The protocol between the fork server and the process that asks it for guests."""

MAX_MESSAGE_BYTES = 1 << 16
END = b"end"
"""The host's last message. Without it the host is gone."""

SCRATCH = "scratch"
"""The part of a guest's folder that the guest may write."""

START_FAILURE = f"{SCRATCH}/failure.txt"
"""Where a guest that could not start says why."""

OUTPUT, ERRORS = "stdout", "stderr"
"""Files in the folder of a script (`host.scripts`): what it printed."""
