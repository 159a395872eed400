"""Programs from other people's modules. A child process with limits lowers each module, but does
not stop hostile code."""
