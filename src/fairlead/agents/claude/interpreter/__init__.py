"""Claude's records in, events out. Pure: its whole memory is one `InterpreterState`."""
