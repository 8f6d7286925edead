"""The CLI's records and control protocol as bytes and types. Pure."""
