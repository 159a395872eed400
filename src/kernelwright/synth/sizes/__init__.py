"""Sizes of a program: equations between them, solved and drawn."""
