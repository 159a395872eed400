"""Every fact about an operator, once: its types, FLOPs, bytes, ATen names and traits."""
