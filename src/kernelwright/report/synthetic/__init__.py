"""The page of a policy that answered programs without search."""
