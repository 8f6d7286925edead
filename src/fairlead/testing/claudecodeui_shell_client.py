"""A client of claudecodeui's /shell as its app is one: what it shows, what it was told, and what it makes of it."""

import re
from typing import Any, Final

from fairlead.terminals.screen.emulator import Emulator

RECONNECTED: Final = "\x1b[36m[Reconnected to existing session]\x1b[0m\r\n"
_EXITED: Final = re.compile(r"Process exited with code (\d+)")


class ClaudeCodeUiShellClient:
    """Pure: frames in. `text` is all output as it came, `screen` what a person would see, `exit_codes` what its app
    reads out of the output, one for each program that has ended."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self.screen = Emulator(columns, rows)
        self.outputs: list[str] = []
        self.errors: list[str] = []
        self.urls: list[tuple[str, bool]] = []
        self.exit_codes: list[int] = []

    @property
    def text(self) -> str:
        return "".join(self.outputs)

    @property
    def reconnects(self) -> int:
        return self.outputs.count(RECONNECTED)

    def init(self, folder: str, **more: Any) -> dict[str, Any]:
        """The frame by which the app begins, with all its fields."""
        frame: dict[str, Any] = {
            "type": "init",
            "projectPath": folder,
            "sessionId": None,
            "hasSession": False,
            "provider": "plain-shell",
            "cols": self.screen.columns,
            "rows": self.screen.rows,
            "initialCommand": None,
            "isPlainShell": True,
        }
        return frame | more

    def resize(self, columns: int, rows: int) -> dict[str, Any]:
        """The frame to send when the window has this size."""
        self.screen.resize(columns, rows)
        return {"type": "resize", "cols": columns, "rows": rows}

    def receive(self, frame: dict[str, Any]) -> None:
        match frame["type"]:
            case "output":
                self.outputs.append(frame["data"])
                self.screen.feed(frame["data"].encode())
                self.exit_codes += [int(code) for code in _EXITED.findall(frame["data"])]
            case "error":
                self.errors.append(frame["message"])
            case "auth_url":
                self.urls.append((frame["url"], frame["autoOpen"]))
