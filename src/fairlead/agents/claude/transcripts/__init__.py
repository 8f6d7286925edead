"""The CLI's own files: found, read, repaired, watched, and matched with what the wire brought."""
