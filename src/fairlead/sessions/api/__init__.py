"""Service calls about sessions, beyond the commands and queries of the model. Pure."""
