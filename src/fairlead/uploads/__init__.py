"""Files that users attach to a message: stored until a message claims them."""
