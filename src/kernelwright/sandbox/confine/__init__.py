"""The confinement of a guest: namespaces, Landlock, seccomp, limits."""
