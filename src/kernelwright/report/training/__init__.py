"""Pages of training runs: one run, and several compared."""
