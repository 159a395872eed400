"""The task linter for what users name: files, factories, whole suites."""
