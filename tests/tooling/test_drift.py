"""`make drift`: its counts and its stored result, and that the page of versions matches the results."""

import json
from pathlib import Path

import pytest

from fairlead.agents.claude.probe import OLDEST
from fairlead.agents.links.framing import Oversize
from tools.clis import RELEASES, release_of
from tools.drift import FLAG, PAGE, RESULTS, counted, in_bundle, numbers, page, report, table
from tools.drift_watch import Watch

ONE = {
    "date": "2026-11-15",
    "integrity": "sha512-aaaaaaaaaaaaaaaaaaaa",
    "ways": {"stdio": {"passed": 2, "failed": ["test_b"]}, "terminal": {"passed": 1, "failed": []}},
    "unknown": {"flags": ["--new"]},
}


def test_the_page_of_versions_matches_the_results() -> None:
    kept = json.loads(RESULTS.read_text())
    assert PAGE.read_text() == page(PAGE.read_text(), kept["versions"])


def test_no_rejected_version_is_listed_and_the_tested_versions_are_the_pinned_ones() -> None:
    kept = json.loads(RESULTS.read_text())["versions"]
    assert all(numbers(version) >= OLDEST for version in kept)
    assert ".".join(map(str, OLDEST)) in PAGE.read_text()
    for release in RELEASES:
        if release.version in kept:
            assert kept[release.version]["integrity"] == release.integrity


def test_tests_are_counted_per_link_and_those_for_other_versions_are_not() -> None:
    tests = {
        "tests/e2e/test_real_turns.py::test_a[2.1.120]": "passed",
        "tests/e2e/test_real_turns.py::test_b[2.1.120]": "failed",
        "tests/e2e/test_real_turns.py::test_c[none]": "skipped",
        "tests/e2e/dialin/test_real_dialin.py::test_a[2.1.120]": "passed",
        "tests/e2e/test_real_handover.py::test_a[2.1.120-dial-in]": "passed",
        "tests/e2e/test_real_handover.py::test_a[2.1.120-terminal]": "passed",
    }
    assert counted(tests, "2.1.120") == {
        "stdio": {"passed": 1, "failed": ["test_b"]},
        "dial-in": {"passed": 2, "failed": []},
        "terminal": {"passed": 1, "failed": []},
    }
    one = {"tests/e2e/dialin/test_real_dialin.py::test_a_version_that_refuses[2.1.121]": "passed"}
    assert counted(one, "2.1.121") == {"stdio": {"passed": 1, "failed": []}}


def test_the_table_names_what_failed_and_sorts_by_number() -> None:
    written = table({"2.1.200": ONE, "2.1.37": {**ONE, "ways": {}}})
    assert written.splitlines()[2:] == [
        "| 2.1.37 | not run | not run | not run | 2026-11-15 |",
        "| 2.1.200 | 2 of 3 | the CLI refuses | 1 of 1 | 2026-11-15 |",
        "",
        "Not passed:",
        "",
        "- 2.1.200, stdio: `test_b`",
    ]
    summary = report("2.1.200", ONE, {"new_subtype"})
    assert "FAILED test_b" in summary and "flags that we do not know: --new" in summary and "new_subtype" in summary


def test_flags_are_read_from_the_help_and_hook_events_from_the_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert FLAG.findall("Options:\n  -c, --continue  x --not-this\n  --add-dir <d>  y\n") == ["--continue", "--add-dir"]
    monkeypatch.setenv("FAIRLEAD_CACHE", str(tmp_path))
    program = tmp_path / "cli" / "9.9.9" / "claude"
    program.parent.mkdir(parents=True)
    program.write_bytes(b'x=["PreToolUse","NewHook"];subtype:v.literal("new_thing"),subtype:L("status")')
    assert in_bundle("9.9.9") == ({"PreToolUse", "NewHook"}, {"new_thing", "status"})
    assert in_bundle("9.9.8") == (set(), set())


def test_an_unpinned_version_uses_the_package_layout_of_its_age() -> None:
    assert release_of(RELEASES[0].version) == RELEASES[0]
    script, native = release_of("2.1.112"), release_of("2.1.113")
    assert (script.package, native.package) == (RELEASES[0].package, RELEASES[-1].package)
    assert (script.version, script.integrity, native.version) == ("2.1.112", "", "2.1.113")


def test_messages_unknown_to_the_decoder_are_recorded_by_name(tmp_path: Path) -> None:
    watch = Watch()
    for line in (
        b'{"type":"system","subtype":"brand_new"}',
        b'{"type":"system","subtype":"status","status":null}',
        b'{"type":"control_request","request_id":"1","request":{"subtype":"brand_new_request"}}',
        b'{"type":"control_request","request_id":"2","request":{"subtype":"can_use_tool"}}',
        b"no json",
        b"[]",
        Oversize(b"{", 1),
    ):
        watch.line(line)
    rows = tmp_path / "a.jsonl"
    rows.write_text('{"type":"new-row"}\n{"type":"summary","summary":"x"}\n')
    watch.transcript(rows)
    assert (watch.wire, watch.requests, watch.rows) == ({"system/brand_new"}, {"brand_new_request"}, {"new-row"})
