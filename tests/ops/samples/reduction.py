"""Sample calls of the reduction operators."""

from samples import Sample

SAMPLES: tuple[Sample, ...] = ()

BAD: tuple[Sample, ...] = ()
