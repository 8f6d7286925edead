"""Turns the messages of an ACP agent into events. Pure."""
