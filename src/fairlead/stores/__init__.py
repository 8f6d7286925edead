"""Where session logs are kept: one folder an adapter of the port in `model/store.py`; each passes the same suite.

Beside them `uploads`, the files that people send along with a message (`model/uploads.py`).
"""
