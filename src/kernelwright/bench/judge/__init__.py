"""The figures of the judge: corpora, broken candidates, cross-checks, throughput."""
