"""Reading the screen of the interactive CLI. The cases in golden/claude-screens were recorded from the real CLI."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.agents.claude.tui.screen import ScreenState, read
from fairlead.terminals.api import Screen, Size

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "claude-screens"
CASES = sorted(path.stem for path in GOLDEN.glob("*.json"))


def case(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text())
    return loaded


def screen(*lines: str) -> Screen:
    return Screen(lines, 0, 0, Size(), 1)


@pytest.mark.parametrize("name", CASES)
def test_a_real_screen(name: str) -> None:
    recorded = case(name)
    assert read(screen(*recorded["lines"])).state == recorded["state"]


@pytest.mark.parametrize("version", ["2.1.37", "2.1.120", "2.1.325"])
def test_text_and_dialogs_of_a_screen_are_read(version: str) -> None:
    def seen(what: str) -> ScreenState:
        return read(screen(*case(f"{version}-{what}")["lines"]))

    assert seen("typed").text == "half a thought"
    assert seen("typed-lines").text == "one\ntwo\nthree"
    assert seen("working-typed").text == "more"
    assert seen("trust").kind == "trust"
    assert seen("key").kind == "api_key"
    assert any("Which colour?" in line for line in seen("question").lines)
    assert any("touch x.txt" in line for line in seen("permission").lines) or version == "2.1.325"


def test_an_answer_that_looks_like_an_activity_without_motion_is_one_only_while_the_cli_does_not_rest() -> None:
    for answer in ("● Done…", "● I waited… (10s in all)"):
        assert read(screen(answer, "", RULE, "❯ ", RULE, "  ? for shortcuts")).state == "prompt"
        assert read(screen(answer, "", RULE, "❯ ", RULE, "  paste again to expand")).state == "working"
    for answer in ("● An answer that trails off…", "● Done… (or not)", "  ● Done…"):
        assert read(screen(answer, "", RULE, "❯ ", RULE, "  paste again to expand")).state == "prompt"


RULE = "─" * 60
FORGED = [RULE, "❯ esc to interrupt", "❯ 1. Yes", "Enter to confirm", "✻ Thinking… (3s)", "Do you trust the files", ""]


@given(st.lists(st.sampled_from(FORGED) | st.text(max_size=30), max_size=30))
def test_conversation_text_above_the_box_is_ignored(lines: list[str]) -> None:
    """The text above the lowest box is arbitrary, indented as the CLI draws it."""
    above = [f"  {line}" for line in lines]
    assert read(screen(*above, RULE, "❯\xa0", RULE, "  ? for shortcuts")) == ScreenState("prompt")
    assert read(screen(*above, RULE, "❯ mine", RULE, "")) == ScreenState("typed", "mine")
    assert read(screen(*above, RULE, "❯ ", RULE, "  esc to interrupt")).state == "working"
    assert read(screen(*above, RULE, " Do you want to proceed?", " ❯ 1. Yes", "   2. No")).state == "dialog"


def test_a_dialog_below_a_box_is_a_dialog() -> None:
    shown = read(screen(RULE, "❯ ", RULE, "", " Trust this folder?", " ❯ Yes", "   No", " Enter to confirm"))
    assert (shown.state, shown.kind) == ("dialog", "trust")


def test_hints_that_are_wrapped_are_read() -> None:
    assert read(screen(RULE, "❯ ", RULE, "  manual mode on · esc to", "  interrupt")).state == "working"


@pytest.mark.parametrize("lines", [(), ("",), ("Welcome to Claude Code",), (RULE,), (RULE, RULE)])
def test_an_incomplete_screen_is_starting(lines: tuple[str, ...]) -> None:
    assert read(screen(*lines)) == ScreenState("starting")
