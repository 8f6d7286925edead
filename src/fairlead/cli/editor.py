"""Editing a value as JSON in the person's own editor."""

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

import msgspec

from fairlead.client.errors import UsageError


def edit_json(value: object) -> str | None:
    """Return the JSON text as changed and saved; None if it was not changed, or the editor failed: that is no decision.

    Raises UsageError if the editor cannot be started."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory(prefix="fairlead-") as folder:
        file = Path(folder) / "input.json"
        file.write_text(text, encoding="utf-8")
        try:
            code = subprocess.run([*command, str(file)], check=False).returncode
        except OSError as error:
            raise UsageError(f"The editor {command[0]} cannot be started ({error.strerror}): set EDITOR.") from error
        saved = file.read_text(encoding="utf-8", errors="replace") if code == 0 and file.is_file() else text
        return saved if saved != text else None
