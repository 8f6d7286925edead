"""The observed abilities of each version of the CLI."""

import pytest

from fairlead.agents.claude.versions import Abilities, parse_version


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("2.1.325 (Claude Code)", (2, 1, 325)),
        ("2.1.37", (2, 1, 37)),
        ("claude 2.0.0-beta", (2, 0, 0)),
        ("none", None),
        ("", None),
    ],
)
def test_a_version_is_found_anywhere_in_the_text(text: str, version: tuple[int, int, int] | None) -> None:
    assert parse_version(text) == version


@pytest.mark.rules("S004-003")
def test_dial_in_support_depends_on_the_version() -> None:
    works = {version: Abilities(version).dial_in for version in [(2, 1, 37), (2, 1, 120), (2, 1, 121), (2, 1, 325)]}
    assert list(works.values()) == [True, True, False, False]


@pytest.mark.rules("S004-341")
def test_the_modes_differ_by_version() -> None:
    """The modes that `--permission-mode` accepts; `auto` only from the version where a hook's `ask` overrides it."""
    common = {"default", "acceptEdits", "bypassPermissions", "plan", "dontAsk"}
    assert set(Abilities((2, 1, 37)).modes) == common | {"delegate"}
    assert set(Abilities((2, 1, 77)).modes) == common
    for version in [(2, 1, 120), (2, 1, 325)]:
        assert set(Abilities(version).modes) == common | {"auto"}


@pytest.mark.rules("S004-125", "S004-301")
def test_messages_that_end_old_versions_or_do_nothing_in_new_ones_are_known() -> None:
    old, middle, new = (Abilities(version) for version in [(2, 1, 37), (2, 1, 170), (2, 1, 200)])
    assert [old.takes_cancel, middle.takes_cancel, new.takes_cancel] == [False, True, True]
    assert [old.takes_environment, middle.takes_environment, new.takes_environment] == [True, True, False]
    assert [old.reports_modes, middle.reports_modes, new.reports_modes] == [False, True, True]
    assert [old.stops_in_transcript, middle.stops_in_transcript, new.stops_in_transcript] == [False, True, True]
