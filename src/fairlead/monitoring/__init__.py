"""Whether the gateway works, and how much: health checks and metrics."""
