"""claudecodeui's chat socket: its messages, frames and history."""
