"""Where session logs are kept: one folder an adapter of the port in `model/store.py`; each passes the same suite."""
