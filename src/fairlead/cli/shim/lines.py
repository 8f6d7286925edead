"""Bytes to lines. Pure."""


class LineBuffer:
    """Splits bytes into lines of any length, each with its newline."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, data: bytes) -> list[bytes]:
        *whole, rest = data.split(b"\n")
        lines = [line + b"\n" for line in whole]
        if lines:
            lines[0] = b"".join([*self._parts, lines[0]])
            self._parts = []
        if rest:
            self._parts.append(rest)
        return lines

    def rest(self) -> bytes:
        """The last line, if it has no newline."""
        left = b"".join(self._parts)
        self._parts = []
        return left
