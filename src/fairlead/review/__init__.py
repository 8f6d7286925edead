"""The changes that sessions make to the files of their folder: snapshots, comparison, git's index and commits."""
