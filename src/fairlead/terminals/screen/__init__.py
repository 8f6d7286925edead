"""Computes a terminal's screen from the bytes that its program writes. Pure."""
