"""Agents: one folder each; nothing here, so that importing one never loads another."""
