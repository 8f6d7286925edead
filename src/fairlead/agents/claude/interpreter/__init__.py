"""Turns Claude's records into events. Pure: its entire state is one `InterpreterState`."""
