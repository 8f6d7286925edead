"""HTTP and WebSocket drivers: knows that protocols exist, not which."""
