"""Forms of scans: along any axis."""

from collections.abc import Mapping

from kernelwright.ops.forms.maker import Writer
from kernelwright.ops.forms.reduction import along
from kernelwright.ops.scan import OPERATORS

WRITERS: Mapping[str, Writer] = {op.name: along for op in OPERATORS}
