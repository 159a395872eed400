"""Names and numbers as people read them: quantities with units, times, counts, speedups."""

Rows = list[tuple[str, ...]]
"""A table of texts, whose first row is the head."""

PREFIXES = ("", "k", "M", "G", "T", "P")


def quantity(value: float, unit: str) -> str:
    """Three significant digits and a decimal prefix: 1540000, "B" -> "1.54 MB"."""
    step = 0
    while abs(value) >= 999.5 and step < len(PREFIXES) - 1:
        value, step = value / 1000, step + 1
    digits = f"{value:.0f}" if abs(value) >= 99.5 or value == int(value) else f"{value:.3g}"
    return f"{digits} {PREFIXES[step]}{unit}".rstrip()


def count(value: int) -> str:
    """Thousands apart: 12345 -> "12,345"."""
    return f"{value:,}"


def milliseconds(value_ms: float) -> str:
    """A time in the unit that keeps it readable: 0.0123 -> "12.3 us"."""
    if value_ms < 0.9995:
        return f"{value_ms * 1000:.3g} us"
    return f"{value_ms:.3g} ms" if value_ms < 999.5 else f"{value_ms / 1000:.3g} s"


def factor(value: float) -> str:
    """A ratio: 1.5 -> "1.50x", 12.3 -> "12.3x"."""
    return f"{value:.2f}x" if value < 9.995 else f"{value:.1f}x"


def fragment(identity: int) -> str:
    """The name of a fragment on the page and in the program picture."""
    return f"F{identity}"
