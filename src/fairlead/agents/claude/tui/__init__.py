"""The CLI in a terminal: started on a PTY, typed into, read from its transcript and its hooks."""
