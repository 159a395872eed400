"""TritonBench: files of a checkout, predictions for them, and what the judge says of both."""
