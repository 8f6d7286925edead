"""Access control: credentials, users, and the gate's decision. Requests are plain data here; no HTTP library."""
