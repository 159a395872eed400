"""Pages of docs/ and tables of the README that code and records hold."""
