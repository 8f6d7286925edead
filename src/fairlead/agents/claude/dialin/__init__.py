"""The CLI that connects to the gateway over the network."""
