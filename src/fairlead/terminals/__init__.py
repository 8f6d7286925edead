"""Shared terminals: programs on PTYs that many clients watch at once. The screen is computed here, so that a client
that joins late, or lags, gets a redraw of all of it."""
