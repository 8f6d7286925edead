"""A client of claudecodeui's /shell that behaves like its app: what it shows, receives and derives from the output."""

import re
from typing import Any, Final

from fairlead.terminals.screen.emulator import Emulator

RECONNECTED: Final = "\x1b[36m[Reconnected to existing session]\x1b[0m\r\n"
_EXITED: Final = re.compile(r"Process exited with code (\d+)")


class ClaudeCodeUiShellClient:
    """Pure: takes frames. `text` is all output unchanged, `screen` what a person would see, `exit_codes` the codes that
    the app parses from the output, one for each program that has ended."""

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
        """The app's first frame, with all its fields."""
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
