"""Repairs JSON with invalid text, as agents write it: half an emoji where an output was cut, stray bytes."""

import re
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from fairlead.model.formats.frames import decode_or_none

T = TypeVar("T")

_ESCAPES: Final = re.compile(
    rb"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)


def repair_json(raw: bytes) -> bytes:
    """Replace invalid text with U+FFFD; everything else stays as it is."""
    text = raw.decode("utf-8", "replace").encode()
    return _ESCAPES.sub(lambda found: rb"\ufffd" if len(found[0]) == 6 else found[0], text)


def decode_repaired(decode: Callable[[bytes], T], data: bytes) -> T | None:
    """Decode JSON, repaired if it needs that; None if it is still invalid, or has another type."""
    try:
        return decode(data)
    except msgspec.ValidationError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return decode_or_none(decode, repair_json(data))
