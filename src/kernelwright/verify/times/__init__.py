"""Times of judged candidates, and how far they are believed."""
