"""Wires to the outside, against servers on this machine."""
