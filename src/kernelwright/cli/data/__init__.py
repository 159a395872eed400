"""`kernelwright data`: programs of real modules, pairs, and pools of judged answers."""
