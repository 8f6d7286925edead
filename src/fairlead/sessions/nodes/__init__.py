"""Sessions among several nodes: routing, takeover, the service calls on nodes."""
