"""The permission policy: the verdict on a tool call of an agent. Pure: text and paths in, a verdict out."""
