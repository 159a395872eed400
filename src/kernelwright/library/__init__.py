"""Results of earlier searches, by program text, GPU and versions: the kernel that won, or that
PyTorch stays. `entry` defines entry and key, `store` keeps entries on disk."""
