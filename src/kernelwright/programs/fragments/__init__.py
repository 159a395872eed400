"""Parts of a program that one candidate replaces: found, written, combined."""
