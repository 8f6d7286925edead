"""HTTP and WebSocket drivers. The server knows that client protocols exist, not which ones."""
