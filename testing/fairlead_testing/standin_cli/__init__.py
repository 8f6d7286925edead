"""A stand-in for the CLI: it speaks the control protocol, writes transcripts, and plays the scripts of the stand-in."""
