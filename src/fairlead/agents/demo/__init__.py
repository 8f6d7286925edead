"""The demo agent: scripts shared with the scripted model API, and a process that speaks Claude's wire."""
