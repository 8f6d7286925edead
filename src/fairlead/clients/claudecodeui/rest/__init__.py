"""claudecodeui's REST routes."""
