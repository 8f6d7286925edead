"""Our declarations of the emulator's library, compared with those in its package."""

import importlib
from ctypes import Structure, sizeof
from typing import Any

import pytest

from fairlead.terminals.screen import ghostty
from fairlead.terminals.screen.ghostty import EmulatorFault, Vt


@pytest.fixture(scope="module")
def theirs() -> Any:
    return importlib.import_module("pyghostty")


@pytest.mark.parametrize(
    ("ours", "name"),
    [
        (ghostty.Point, "GhosttyPoint"),
        (ghostty.GridRef, "GhosttyGridRef"),
        (ghostty.Selection, "GhosttySelection"),
        (ghostty.ScreenExtra, "GhosttyFormatterScreenExtra"),
        (ghostty.TerminalExtra, "GhosttyFormatterTerminalExtra"),
        (ghostty.FormatOptions, "GhosttyFormatterTerminalOptions"),
        (ghostty.ModeConfig, "GhosttyTerminalModeConfig"),
        (ghostty.String, "GhosttyString"),
        (ghostty.String, "GhosttyCellsView"),
    ],
)
def test_structures_have_the_same_layout(theirs: Any, ours: type[Structure], name: str) -> None:
    kind = theirs.ffi.typeof(name)
    assert sizeof(ours) == theirs.ffi.sizeof(kind)
    offsets = {field: theirs.ffi.offsetof(kind, field) for field, _ in kind.fields}
    assert all(getattr(ours, field).offset == offset for field, offset in offsets.items() if hasattr(ours, field))


def test_point_has_the_same_layout(theirs: Any) -> None:
    """The package's structure contains a union, which C passes in the same way."""
    start = theirs.ffi.offsetof("GhosttyPoint", "value")
    assert ghostty.Point.x.offset == start + theirs.ffi.offsetof("GhosttyPointCoordinate", "x")
    assert ghostty.Point.y.offset == start + theirs.ffi.offsetof("GhosttyPointCoordinate", "y")


def test_constants_have_the_same_values(theirs: Any) -> None:
    lib = theirs.lib
    for prefix, ours in (("GHOSTTY_TERMINAL_OPT_", ghostty.OPTIONS), ("GHOSTTY_TERMINAL_DATA_", ghostty.DATA)):
        assert ours == {name: getattr(lib, prefix + name) for name in ours}
    assert (ghostty.PLAIN, ghostty.VT) == (lib.GHOSTTY_FORMATTER_FORMAT_PLAIN, lib.GHOSTTY_FORMATTER_FORMAT_VT)
    assert ghostty.SCREEN == lib.GHOSTTY_POINT_TAG_ACTIVE
    assert ghostty.BAR == lib.GHOSTTY_TERMINAL_CURSOR_STYLE_BAR
    assert ghostty.ROW_ITERATOR == lib.GHOSTTY_RENDER_STATE_DATA_ROW_ITERATOR
    assert ghostty.ROW_CELLS == lib.GHOSTTY_RENDER_STATE_ROW_DATA_CELLS_RAW
    assert ghostty.CELL_CONTENT == lib.GHOSTTY_CELL_DATA_CONTENT_TAG
    assert ghostty.CELL_PALETTE == lib.GHOSTTY_CELL_DATA_COLOR_PALETTE
    assert ghostty.CELL_RGB == lib.GHOSTTY_CELL_DATA_COLOR_RGB
    assert (ghostty.CELL_WIDE, ghostty.WIDE) == (lib.GHOSTTY_CELL_DATA_WIDE, lib.GHOSTTY_CELL_WIDE_WIDE)
    assert ghostty.PALETTE == lib.GHOSTTY_CELL_CONTENT_BG_COLOR_PALETTE
    assert ghostty.RGB == lib.GHOSTTY_CELL_CONTENT_BG_COLOR_RGB


def test_error_of_the_library_is_raised() -> None:
    with pytest.raises(EmulatorFault, match=r"new: -\d"):
        Vt.new(0, 0, 0)


def test_missing_package_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ghostty, "find_spec", lambda _name: None)
    with pytest.raises(EmulatorFault, match="pyghostty is not installed"):
        ghostty.library.__wrapped__()


def test_copy_is_an_independent_terminal() -> None:
    terminal = Vt.new(10, 2, 0)
    terminal.write(b"one")
    copy = terminal.copy()
    copy.write(b" two")
    assert (terminal.format(ghostty.PLAIN, 0, 1), copy.format(ghostty.PLAIN, 0, 1)) == (b"one", b"one two")
