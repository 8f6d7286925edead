"""Image type and size from an image's first bytes."""

import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.uploads.image_type import LONGEST_SIDE, fits, image_type

Make = Callable[[int, int], bytes]


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height)


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height)


def jpeg(width: int, height: int) -> bytes:
    """A comment, padding, a restart and a table before the frame, which is progressive."""
    before = b"\xff\xfe\0\x08\xff\xc0\0\0\0\0" + b"\xff\xff\xd0" + b"\xff\xc4\0\x04\0\0"
    return b"\xff\xd8" + before + b"\xff\xc2\0\x11\x08" + struct.pack(">HH", height, width)


def webp(form: bytes, rest: bytes) -> bytes:
    return b"RIFF\0\0\0\0WEBP" + form + b"\0\0\0\0" + rest


def webp_plain(width: int, height: int) -> bytes:
    return webp(b"VP8 ", b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height))


def webp_lossless(width: int, height: int) -> bytes:
    return webp(b"VP8L", b"\x2f" + struct.pack("<I", width - 1 | height - 1 << 14))


def webp_extended(width: int, height: int) -> bytes:
    return webp(b"VP8X", bytes(4) + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little"))


KINDS: dict[Make, str] = {
    png: "image/png",
    gif: "image/gif",
    jpeg: "image/jpeg",
    webp_plain: "image/webp",
    webp_lossless: "image/webp",
    webp_extended: "image/webp",
}


@pytest.mark.parametrize("make", KINDS)
def test_each_type_is_recognised_by_its_bytes(make: Make) -> None:
    assert image_type(make(1, 1)) == KINDS[make]


@pytest.mark.parametrize("make", KINDS)
def test_an_image_fits_if_both_sides_fit(make: Make) -> None:
    most = LONGEST_SIDE
    sides = [(1, 1), (most, most), (most + 1, 1), (1, most + 1)]
    assert [fits(make(*each)) for each in sides] == [True, True, False, False]


@pytest.mark.parametrize("make", KINDS)
def test_an_image_with_a_truncated_size_does_not_fit(make: Make) -> None:
    whole = make(300, 300)
    assert not any(fits(whole[:end]) for end in range(len(whole)))


@given(st.sampled_from([b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF8", b"RIFF\0\0\0\0WEBP"]), st.binary())
def test_any_data_gets_a_verdict(begin: bytes, rest: bytes) -> None:
    assert fits(begin + rest) in (True, False)


@pytest.mark.parametrize("data", [png(0, 1), gif(1, 0), webp(b"ALPH", bytes(20)), b"\xff\xd8\xff\xd9\0", b"text", b""])
def test_data_without_a_size_does_not_fit(data: bytes) -> None:
    assert not fits(data)
