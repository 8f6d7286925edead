"""Claude Code. Pure: lines, records, control, pending, versions, transcript, interpreter. Driving: agent, launch, follow."""
