"""The command line. Each command is a thin client of the gateway's native protocol, or of the data folder."""
