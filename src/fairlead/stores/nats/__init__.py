"""The store of a cell of several gateways: NATS JetStream decides and keeps, each node's SQLite repeats and answers."""
