"""Sample calls of the matrix operators."""

from samples import Sample

SAMPLES: tuple[Sample, ...] = ()

BAD: tuple[Sample, ...] = ()
