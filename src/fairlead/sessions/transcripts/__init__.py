"""Sessions that exist as transcripts: listed, imported, mirrored, forked."""
