"""The CLI as a child process that exchanges stream-json over its pipes."""
