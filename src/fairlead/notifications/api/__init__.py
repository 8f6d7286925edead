"""The requests, the answers and the ports of this room: types without I/O."""
