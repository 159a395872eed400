"""The command line, one file for each verb. A file only parses options and prints results. The
folders `data`, `suites` and `train` have the verbs of `data`, `eval` and `train`."""
