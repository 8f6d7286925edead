"""Repairs JSON with invalid text, as agents write it: half an emoji where an output was cut, stray bytes."""

import re
from typing import Final

_ESCAPES: Final = re.compile(
    rb"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)


def repair_json(raw: bytes) -> bytes:
    """Replace invalid text with U+FFFD; everything else stays as it is."""
    text = raw.decode("utf-8", "replace").encode()
    return _ESCAPES.sub(lambda found: rb"\ufffd" if len(found[0]) == 6 else found[0], text)
