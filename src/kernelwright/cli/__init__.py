"""The command line: one file a verb, which only parses and prints."""
