"""Seeds derived from names, so that every draw has its own stream and none is global."""

import hashlib


def derive(seed: int, *names: object) -> int:
    """A 63-bit seed for the stream `names` under `seed`; stable over versions and platforms."""
    text = "/".join([str(seed), *map(str, names)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1
