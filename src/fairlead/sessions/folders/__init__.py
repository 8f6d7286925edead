"""Folders that sessions work in: browsing, known folders, trust, reading files."""
