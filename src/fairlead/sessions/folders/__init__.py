"""Folders that sessions work in: browsed, remembered, trusted."""
