"""What can be asked about credentials, users and keys. Pure."""
