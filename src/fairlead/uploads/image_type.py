"""Detects the type and size of pictures from their first bytes. Pure.

A picture that the model's API rejects stays in the conversation and fails every later turn, so only a picture that is
known to be acceptable is treated as one.
"""

import struct
from typing import Final

LONGEST_SIDE: Final = 8000
"""Pixels; the Messages API rejects pictures with a longer side."""

_SIGNS: Final = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))
_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""JPEG markers that are followed by a frame's size."""
_ALONE: Final = frozenset({0x01, *range(0xD0, 0xD9)})
"""JPEG markers without a payload."""


def image_type(data: bytes) -> str:
    """The media type of a picture that an agent can view; empty for any other data."""
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for sign, kind in _SIGNS if data.startswith(sign)), "")


def fits(data: bytes) -> bool:
    """Whether the API accepts the picture's width and height; False if they cannot be read."""
    readers = {"image/png": _png, "image/jpeg": _jpeg, "image/gif": _gif, "image/webp": _webp}
    reader = readers.get(image_type(data))
    try:
        width, height = reader(data) if reader else (0, 0)
    except (struct.error, IndexError):
        return False
    return 0 < width <= LONGEST_SIDE and 0 < height <= LONGEST_SIDE


def _png(data: bytes) -> tuple[int, int]:
    return struct.unpack_from(">II", data, 16) if data[12:16] == b"IHDR" else (0, 0)


def _gif(data: bytes) -> tuple[int, int]:
    return struct.unpack_from("<HH", data, 6)


def _jpeg(data: bytes) -> tuple[int, int]:
    place = 2
    while data[place] == 0xFF:
        marker = data[place + 1]
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", data, place + 5)
            return width, height
        if marker == 0xFF:
            place += 1
        elif marker in _ALONE:
            place += 2
        else:
            place += 2 + max(2, int.from_bytes(data[place + 2 : place + 4], "big"))
    return 0, 0


def _webp(data: bytes) -> tuple[int, int]:
    match data[12:16]:
        case b"VP8X":
            width, more_width, height, more_height = struct.unpack_from("<HBHB", data, 24)
            return 1 + width + (more_width << 16), 1 + height + (more_height << 16)
        case b"VP8L":
            bits = struct.unpack_from("<I", data, 21)[0]
            return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        case b"VP8 ":
            width, height = struct.unpack_from("<HH", data, 26)
            return width & 0x3FFF, height & 0x3FFF
        case _:
            return 0, 0
