"""A command line as the shell would read it: what it runs, reads and writes. Pure."""
