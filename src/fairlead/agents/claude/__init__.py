"""Claude Code. Pure: lines, records, sending, control, pending, versions, transcript, interpreter and its parts."""
