"""The page of programs that were drawn: counts and coverage."""
