"""Stores of session logs: one folder per adapter of the port in `model/store.py`; each passes the same tests."""
