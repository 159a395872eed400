"""Data to train on: programs of real modules, pairs, and pools of judged answers."""
