"""Pairs of a request and an answer, assembled into a data set. A recipe says which pairs are
judged; rejected pairs go to the file of negatives."""
