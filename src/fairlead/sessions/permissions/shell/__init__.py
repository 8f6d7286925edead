"""Analysis of a shell command line: the commands that it runs, the files that it reads and writes. Pure."""
