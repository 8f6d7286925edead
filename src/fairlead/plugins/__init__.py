"""Plugins: programs that a person put into a folder and enabled, run and watched here, and their sockets bridged.

A manifest says what is run; nothing that a client sends does.
"""
