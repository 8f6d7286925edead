"""The paths of the CLI's transcripts, as the CLI itself derives them from its environment and its working folder."""

import os
import re
import unicodedata
from collections.abc import Mapping
from pathlib import Path

_LONGEST_NAME = 200


def config_folder(env: Mapping[str, str]) -> Path:
    """The folder where the CLI keeps its files, by its environment."""
    return Path(env.get("CLAUDE_CONFIG_DIR") or os.path.join(env.get("HOME", "/"), ".claude"))


def transcript_path(config: Path, cwd: str, agent_session: str) -> Path:
    """The transcript file of a session that works in `cwd` (with its links resolved)."""
    folder = unicodedata.normalize("NFC", cwd)
    name = re.sub(r"[^a-zA-Z0-9]", "-", folder)
    if len(name) > _LONGEST_NAME:
        # As in 2.1.120 and 2.1.325; 2.1.37 does not shorten, and writes nothing if the system rejects the long name.
        name = f"{name[:_LONGEST_NAME]}-{_short_hash(folder)}"
    return config / "projects" / name / f"{agent_session}.jsonl"


def _short_hash(text: str) -> str:
    """The 32-bit string hash common in JavaScript, over UTF-16 units, in base 36."""
    data = text.encode("utf-16-le", "surrogatepass")
    value = 0
    for index in range(0, len(data), 2):
        value = (value * 31 + int.from_bytes(data[index : index + 2], "little")) & 0xFFFFFFFF
    value = abs(value - (1 << 32) if value >= 1 << 31 else value)
    digits = ""
    while value or not digits:
        value, digit = divmod(value, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits


def find_transcript(config: Path, agent_session: str) -> Path | None:
    """Find the session's file in any project folder: versions name their folders by different rules."""
    return next((config / "projects").glob(f"*/{agent_session}.jsonl"), None)


def existing_transcript(config: Path, expected: Path) -> Path:
    """The session's file, if there is one; else the path where it is expected."""
    return expected if expected.exists() else find_transcript(config, expected.stem) or expected
