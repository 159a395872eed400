"""Programs out of other people's modules, each lowered in a confined process."""
