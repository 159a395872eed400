"""Sample calls of the attention operators."""

from samples import Sample

SAMPLES: tuple[Sample, ...] = ()

BAD: tuple[Sample, ...] = ()
