"""Who may come in: credentials, users, and the gate's decision. Knows requests as plain data, no HTTP library."""
