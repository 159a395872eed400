"""Sample calls of the scan operators."""

from samples import Sample

SAMPLES: tuple[Sample, ...] = ()

BAD: tuple[Sample, ...] = ()
