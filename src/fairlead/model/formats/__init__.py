"""Small formats that several rooms encode or decode: WebSocket frames, timestamps, damaged JSON. Pure."""
