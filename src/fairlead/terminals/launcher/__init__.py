"""Sockets whose client chooses the program to attach to."""
