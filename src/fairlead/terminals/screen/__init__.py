"""What a terminal shows, computed from the bytes that its program writes. Pure."""
