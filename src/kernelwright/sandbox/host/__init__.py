"""The trusted side: starts guests, asks them, and reads their answers within bounds."""
