"""Claude Code.

`kind.py` is the agent kind; `wire/` and `interpreter/` are pure; `stdio/`, `dialin/` and `tui/` are the three ways to
run the CLI, `shim/` drives one that another program runs; `transcripts/` reads the files that it writes.
"""
