"""Transcripts that programs on Claude's Agent SDK store in the gateway, per user (docs/how-to/agent-sdk.md)."""
