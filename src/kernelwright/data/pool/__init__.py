"""Pools: answers of a policy and of the teacher to many programs, for repeated training. A recipe
chooses the answers that are judged and timed."""
