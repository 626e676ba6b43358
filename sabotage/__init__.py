"""Named breaks of the code, each of which must turn its named tests red."""
