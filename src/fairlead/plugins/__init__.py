"""Plugins: programs that a person put into a folder and enabled. Runs and supervises them, and proxies their sockets.

Only the manifest decides what runs; a client's input never does.
"""
