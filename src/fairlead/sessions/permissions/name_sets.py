"""Sets of names, written as text."""


def names(words: str) -> frozenset[str]:
    """Return the set of the names in a text, separated by spaces."""
    return frozenset(words.split())
