"""The CLI as a child process that speaks stream-json on its pipes."""
