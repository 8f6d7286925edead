"""The terminal emulator: libghostty-vt from the package pyghostty. No other module in this package calls C.

The package's own binding reads all of its declarations when it is imported, which takes most of a second. These are the
few that we call, with the values of that one release (`tests/terminals/test_terminal_ghostty.py` compares them).
"""

import re
import weakref
from ctypes import (
    CDLL,
    CFUNCTYPE,
    POINTER,
    Structure,
    byref,
    c_bool,
    c_char_p,
    c_int,
    c_size_t,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
    cast,
    py_object,
    sizeof,
    string_at,
)
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from fairlead.model.errors import FairleadError
from fairlead.terminals.screen.modes import DEFAULTS

PLAIN: Final = 0
VT: Final = 1
SCREEN: Final = 0
"""The tag of points that count from the top of the screen."""

OPTIONS: Final = {
    "USERDATA": 0,
    "WRITE_PTY": 1,
    "KITTY_IMAGE_STORAGE_LIMIT": 15,
    "APC_MAX_BYTES": 19,
    "DEFAULT_CURSOR_STYLE": 22,
    "SCROLLBACK_MAX_BYTES": 27,
    "SCROLLBACK_MAX_LINES": 28,
    "MODE_DEFAULT": 33,
    "MODE": 34,
}
DATA: Final = {
    "COLS": 1,
    "ROWS": 2,
    "CURSOR_X": 3,
    "CURSOR_Y": 4,
    "CURSOR_PENDING_WRAP": 5,
    "ACTIVE_SCREEN": 6,
    "KITTY_KEYBOARD_FLAGS": 8,
    "TITLE": 12,
    "SCROLLBACK_ROWS": 15,
    "MODE": 37,
}
BAR: Final = 0
_SHAPE: Final = b"\x1bP$q q\x1b\\"
ROW_ITERATOR: Final = 4
ROW_CELLS: Final = 5
CELL_BYTES: Final = 8
CELL_CONTENT: Final = 2
CELL_WIDE: Final = 3
CELL_PALETTE: Final = 10
CELL_RGB: Final = 11
PALETTE: Final = 2
RGB: Final = 3
WIDE: Final = 1
_ANSI: Final = 1 << 15


class Point(Structure):
    _fields_ = (("tag", c_int), ("_gap", c_uint32), ("x", c_uint16), ("y", c_uint32), ("_rest", c_uint64))


class GridRef(Structure):
    _fields_ = (("size", c_size_t), ("node", c_void_p), ("x", c_uint16), ("y", c_uint16))


class Selection(Structure):
    _fields_ = (("size", c_size_t), ("start", GridRef), ("end", GridRef), ("rectangle", c_bool))


class ScreenExtra(Structure):
    _fields_ = (
        ("size", c_size_t),
        *((name, c_bool) for name in ("cursor", "style", "hyperlink", "protection", "kitty_keyboard", "charsets")),
    )


class TerminalExtra(Structure):
    _fields_ = (
        ("size", c_size_t),
        *((name, c_bool) for name in ("palette", "modes", "scrolling_region", "tabstops", "pwd", "keyboard")),
        ("screen", ScreenExtra),
    )


class FormatOptions(Structure):
    _fields_ = (
        ("size", c_size_t),
        ("emit", c_int),
        ("unwrap", c_bool),
        ("trim", c_bool),
        ("extra", TerminalExtra),
        ("selection", POINTER(Selection)),
    )


class ModeConfig(Structure):
    _fields_ = (("mode", c_uint16), ("value", c_bool))


class String(Structure):
    _fields_ = (("ptr", c_void_p), ("len", c_size_t))


_WritePty = CFUNCTYPE(None, c_void_p, py_object, c_void_p, c_size_t)


_Handle = POINTER(c_void_p)
_Length = POINTER(c_size_t)
_FUNCTIONS: Final[dict[str, tuple[Any, ...]]] = {
    "free": (None, c_void_p, c_void_p, c_size_t),
    "terminal_new": (c_int, c_void_p, _Handle, c_uint16, c_uint16),
    "terminal_free": (None, c_void_p),
    "terminal_vt_write": (None, c_void_p, c_char_p, c_size_t),
    "terminal_resize": (c_int, c_void_p, c_uint16, c_uint16, c_uint32, c_uint32),
    "terminal_set": (c_int, c_void_p, c_int, c_void_p),
    "terminal_get": (c_int, c_void_p, c_int, c_void_p),
    "terminal_grid_ref": (c_int, c_void_p, Point, POINTER(GridRef)),
    "grid_ref_cell": (c_int, POINTER(GridRef), POINTER(c_uint64)),
    "cell_get": (c_int, c_uint64, c_int, c_void_p),
    "render_state_new": (c_int, c_void_p, _Handle),
    "render_state_free": (None, c_void_p),
    "render_state_update": (c_int, c_void_p, c_void_p),
    "render_state_get": (c_int, c_void_p, c_int, c_void_p),
    "render_state_row_iterator_new": (c_int, c_void_p, _Handle),
    "render_state_row_iterator_free": (None, c_void_p),
    "render_state_row_iterator_next": (c_bool, c_void_p),
    "render_state_row_get": (c_int, c_void_p, c_int, c_void_p),
    "formatter_terminal_new": (c_int, c_void_p, _Handle, c_void_p, FormatOptions),
    "formatter_format_alloc": (c_int, c_void_p, c_void_p, _Handle, _Length),
    "formatter_free": (None, c_void_p),
    "snapshot_encode_alloc": (c_int, c_void_p, c_void_p, _Handle, _Length),
    "snapshot_decoder_new_buf": (c_int, c_void_p, _Handle, c_char_p, c_size_t),
    "snapshot_decoder_decode": (c_int, c_void_p, _Handle),
    "snapshot_decoder_free": (None, c_void_p),
}
"""The called functions, each with the type of its result and of its arguments."""


class EmulatorFault(FairleadError):
    """libghostty-vt failed: out of memory, or an unsupported release."""

    def __init__(self, what: str, code: int) -> None:
        super().__init__(
            f"The terminal emulator failed ({what}: {code}). If it happens again, install the pinned dependencies."
        )


@cache
def library() -> CDLL:
    found = find_spec("pyghostty")
    places = [*Path(found.origin).parent.glob("_lib/libghostty-vt.*")] if found and found.origin else []
    if not places:
        raise EmulatorFault("pyghostty is not installed", 0)
    lib = CDLL(str(places[0]))
    for name, (result, *arguments) in _FUNCTIONS.items():
        function = getattr(lib, f"ghostty_{name}")
        function.restype, function.argtypes = result, arguments
    return lib


def _add(_terminal: int | None, answers: bytearray, data: int, length: int) -> None:
    answers += string_at(data, length)


_ANSWERED: Final = _WritePty(_add)
"""The callback; referenced here for as long as C may call it."""


class Vt:
    """One terminal of the library; it is freed with its last reference."""

    def __init__(self, handle: c_void_p) -> None:
        self._lib = library()
        self._handle = handle
        weakref.finalize(self, self._lib.ghostty_terminal_free, handle)

    @classmethod
    def new(cls, columns: int, rows: int, history_bytes: int) -> "Vt":
        handle = c_void_p()
        _check("new", library().ghostty_terminal_new(None, byref(handle), columns, rows))
        terminal = cls(handle)
        terminal.limit(history_bytes)
        for mode, on in DEFAULTS.items():
            if terminal.mode(mode) != on:
                terminal._set("MODE_DEFAULT", byref(ModeConfig(mode, on)))
                terminal._set("MODE", byref(ModeConfig(mode, on)))
        return terminal

    @classmethod
    def decode(cls, encoded: bytes) -> "Vt":
        """The terminal that `encode` was called on, without a limit of its history."""
        decoder, handle = c_void_p(), c_void_p()
        try:
            new = library().ghostty_snapshot_decoder_new_buf(None, byref(decoder), encoded, len(encoded))
            _check("decode", new)
            _check("decode", library().ghostty_snapshot_decoder_decode(decoder, byref(handle)))
        finally:
            library().ghostty_snapshot_decoder_free(decoder)
        return cls(handle)

    def encode(self) -> bytes:
        """The whole state, as bytes of this release of the library. Only between two sequences."""
        data, length = c_void_p(), c_size_t()
        _check("encode", self._lib.ghostty_snapshot_encode_alloc(self._handle, None, byref(data), byref(length)))
        try:
            return string_at(data, length.value)
        finally:
            self._lib.ghostty_free(None, data, length)

    def copy(self) -> "Vt":
        """Another terminal in the same state, to be queried and changed. Only between two sequences."""
        return Vt.decode(self.encode())

    def limit(self, history_bytes: int, history_lines: int | None = None) -> None:
        """Limit the memory that output can use. What is above a limit is dropped in pages of some hundred lines."""
        self._set("SCROLLBACK_MAX_BYTES", byref(c_size_t(history_bytes)))
        if history_lines is not None:
            self._set("SCROLLBACK_MAX_LINES", byref(c_size_t(history_lines)))
        self._set("KITTY_IMAGE_STORAGE_LIMIT", byref(c_uint64(0)))
        self._set("APC_MAX_BYTES", byref(c_size_t(0)))

    def write(self, data: bytes) -> None:
        self._lib.ghostty_terminal_vt_write(self._handle, data, len(data))

    def ask(self, question: bytes) -> bytes:
        """Write a query and return the terminal's answer."""
        answers = bytearray()
        self._set("USERDATA", cast(id(answers), c_void_p))
        self._set("WRITE_PTY", cast(_ANSWERED, c_void_p))
        self.write(question)
        self._set("WRITE_PTY", None)
        return bytes(answers)

    def resize(self, columns: int, rows: int) -> None:
        _check("resize", self._lib.ghostty_terminal_resize(self._handle, columns, rows, 0, 0))

    def number(self, name: str) -> int:
        value = c_uint64()
        self._get(name, value)
        return value.value

    def mode(self, mode: int, *, ansi: bool = False) -> bool:
        config = ModeConfig(mode | _ANSI if ansi else mode, False)
        self._get("MODE", config)
        return bool(config.value)

    def title(self) -> str:
        found = String()
        self._get("TITLE", found)
        return string_at(found.ptr, found.len).decode("utf-8", "replace") if found.len else ""

    def format(self, emit: int, first: int, last: int, *extras: str) -> bytes:
        """Rows of the screen from the first to the last, and the state named by `extras` before or after them."""
        right = self.number("COLS") - 1
        selection = Selection(sizeof(Selection), self._ref(0, first), self._ref(right, last), False)
        screen = ScreenExtra(sizeof(ScreenExtra))
        extra = TerminalExtra(sizeof(TerminalExtra), screen=screen)
        for name in extras:
            setattr(extra if hasattr(extra, name) else extra.screen, name, True)
        options = FormatOptions(sizeof(FormatOptions), emit, False, False, extra)
        options.selection.contents = selection
        formatter, data, length = c_void_p(), c_void_p(), c_size_t()
        _check("format", self._lib.ghostty_formatter_terminal_new(None, byref(formatter), self._handle, options))
        try:
            _check("format", self._lib.ghostty_formatter_format_alloc(formatter, None, byref(data), byref(length)))
            return string_at(data, length.value) if length.value else b""
        finally:
            self._lib.ghostty_free(None, data, length)
            self._lib.ghostty_formatter_free(formatter)

    def shape(self) -> int:
        """The cursor's shape as a program sets it (CSI q); 0 if none did. Changes the terminal's default shape."""
        before = self.ask(_SHAPE)
        self._set("DEFAULT_CURSOR_STYLE", byref(c_int(BAR)))
        found = re.search(rb"(\d+) q", before)
        return int(found[1]) if found is not None and self.ask(_SHAPE) == before else 0

    def cells(self) -> list[bytes]:
        """Each row of the screen, as its cells are in memory: `CELL_BYTES` per cell, zeros for an empty cell."""
        state, rows, view = c_void_p(), c_void_p(), String()
        found = []
        try:
            _check("cells", self._lib.ghostty_render_state_new(None, byref(state)))
            _check("cells", self._lib.ghostty_render_state_update(state, self._handle))
            _check("cells", self._lib.ghostty_render_state_row_iterator_new(None, byref(rows)))
            _check("cells", self._lib.ghostty_render_state_get(state, ROW_ITERATOR, byref(rows)))
            while self._lib.ghostty_render_state_row_iterator_next(rows):
                _check("cells", self._lib.ghostty_render_state_row_get(rows, ROW_CELLS, byref(view)))
                found.append(string_at(view.ptr, view.len * CELL_BYTES))
        finally:
            self._lib.ghostty_render_state_row_iterator_free(rows)
            self._lib.ghostty_render_state_free(state)
        return found

    def background(self, x: int, y: int) -> str:
        """The background colour of a cell without a character, as SGR parameters; empty if it has none."""
        content, colour = c_int(), (c_uint8 * 3)()
        self._cell(x, y, CELL_CONTENT, content)
        if content.value == PALETTE:
            self._cell(x, y, CELL_PALETTE, colour)
            return f"48;5;{colour[0]}"
        if content.value == RGB:
            self._cell(x, y, CELL_RGB, colour)
            return f"48;2;{colour[0]};{colour[1]};{colour[2]}"
        return ""

    def wide(self, x: int, y: int) -> bool:
        """Whether the cell has the first half of a wide character."""
        wide = c_int()
        self._cell(x, y, CELL_WIDE, wide)
        return wide.value == WIDE

    def _cell(self, x: int, y: int, what: int, out: Any) -> None:
        cell = c_uint64()
        _check("cell", self._lib.ghostty_grid_ref_cell(byref(self._ref(x, y)), byref(cell)))
        _check("cell", self._lib.ghostty_cell_get(cell, what, byref(out)))

    def _ref(self, x: int, y: int) -> GridRef:
        ref = GridRef(sizeof(GridRef))
        point = Point(SCREEN, 0, x, y, 0)
        _check("point", self._lib.ghostty_terminal_grid_ref(self._handle, point, byref(ref)))
        return ref

    def _get(self, name: str, out: Any) -> None:
        _check(name, self._lib.ghostty_terminal_get(self._handle, DATA[name], byref(out)))

    def _set(self, name: str, value: Any) -> None:
        _check(name, self._lib.ghostty_terminal_set(self._handle, OPTIONS[name], value))


def _check(what: str, code: int) -> None:
    if code != 0:
        raise EmulatorFault(what, code)
