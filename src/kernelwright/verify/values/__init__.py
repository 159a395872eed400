"""Values compared: the fp64 answer, the error that is allowed, what rounding decides."""
