"""What keeps a guest from the rest of the machine: namespaces, Landlock, seccomp, limits."""
