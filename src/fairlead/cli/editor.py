"""A text in the person's own editor."""

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from fairlead.cli.errors import UsageError


def edit(text: str, suffix: str) -> str | None:
    """The text as it was changed and saved; None if it was not, or the editor gave up: who leaves an editor like that
    has decided nothing. Usage, if there is no editor."""
    command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory(prefix="fairlead-") as folder:
        file = Path(folder) / f"input{suffix}"
        file.write_text(text, encoding="utf-8")
        try:
            code = subprocess.run([*command, str(file)], check=False).returncode
        except OSError as error:
            raise UsageError(f"The editor {command[0]} cannot be started ({error.strerror}): set EDITOR.") from error
        saved = file.read_text(encoding="utf-8", errors="replace") if code == 0 and file.is_file() else text
        return saved if saved != text else None
