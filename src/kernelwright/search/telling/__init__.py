"""What a search tells: steps, progress, records, sentences."""
