"""The demo agent: scripts shared with the scripted model API, and a process that implements Claude's wire protocol."""
