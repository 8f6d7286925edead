"""Shared terminals: programs on PTYs that many watch at once. What a screen shows is computed here, so that one who
comes late, or lags, is drawn the whole of it."""
