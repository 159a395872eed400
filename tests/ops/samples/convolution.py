"""Sample calls of the convolution operators."""

from samples import Sample

SAMPLES: tuple[Sample, ...] = ()

BAD: tuple[Sample, ...] = ()
