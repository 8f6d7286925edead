"""A client of /terminal that behaves like a browser's: what it shows, and what it has received."""

from typing import Any

from fairlead.terminals.screen.emulator import Emulator


class CognovaTerminalClient:
    """Pure: takes frames. `text` is all output unchanged, `screen` what a person would see."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self.screen = Emulator(columns, rows)
        self.outputs: list[str] = []
        self.errors: list[str] = []
        self.pongs = 0
        self.ended = False
        self.exit_code: int | None = None
        self.size: tuple[int, int] | None = None

    @property
    def text(self) -> str:
        return "".join(self.outputs)

    def resize(self, columns: int, rows: int) -> dict[str, Any]:
        """The frame to send when the window has this size."""
        self.screen.resize(columns, rows)
        return {"type": "resize", "cols": columns, "rows": rows}

    def receive(self, frame: dict[str, Any]) -> None:
        match frame["type"]:
            case "output":
                self.outputs.append(frame["data"])
                self.screen.feed(frame["data"].encode())
            case "error":
                self.errors.append(frame["data"])
            case "pong":
                self.pongs += 1
            case "exit":
                self.ended = True
                self.exit_code = frame["code"]
            case "size":
                self.size = frame["cols"], frame["rows"]
                self.screen.resize(*self.size)
