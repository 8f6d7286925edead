"""Drives the CLI in a terminal: starts it on a PTY, types prompts, and reads its transcript and its hooks."""
