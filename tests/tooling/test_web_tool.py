"""The tool that builds the web UI: only where npm exists and something changed; a test run without npm fails."""

from pathlib import Path

import pytest

from tools import web


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """A clone with only the sources; returns the npm calls, in order."""
    folder = tmp_path / "web"
    (folder / "src").mkdir(parents=True)
    for name in ("package-lock.json", "package.json", "tsconfig.json", "vite.config.ts", "index.html", "src/main.tsx"):
        (folder / name).write_text("{}")
    built = tmp_path / "dist"
    asked: list[tuple[str, ...]] = []

    def npm(*arguments: str) -> int:
        asked.append(arguments[:2])
        for made in (built, folder / "node_modules"):
            made.mkdir(exist_ok=True)
        return 0

    places = {"ROOT": tmp_path, "WEB": folder, "BUILT": built, "STAMP": built / ".sources"}
    for name, value in {**places, "npm": npm}.items():
        monkeypatch.setattr(web, name, value)
    monkeypatch.setattr(web, "INSTALLED", folder / "node_modules" / ".fairlead-lock")
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    return asked


def test_it_builds_once_and_again_when_a_source_changed(clone: list[tuple[str, ...]]) -> None:
    assert web.main([]) == 0
    assert clone == [("ci", "--ignore-scripts"), ("run", "--silent")]
    assert web.main([]) == 0
    assert len(clone) == 2
    (web.WEB / "src" / "main.tsx").write_text("changed")
    assert web.main([]) == 0
    # The packages are the same, so only the build runs.
    assert clone[2:] == [("run", "--silent")]


def test_a_test_run_checks_and_tests_before_it_builds(clone: list[tuple[str, ...]]) -> None:
    assert web.main(["test"]) == 0
    assert clone == [("ci", "--ignore-scripts"), *[("run", "--silent")] * 3]


def test_without_npm_it_says_so_in_one_line(
    clone: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert web.main([]) == 0
    assert capsys.readouterr().out.count("\n") == 1
    assert web.main(["test"]) == 1
    assert clone == []


def test_a_failed_build_is_tried_again(clone: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "npm", lambda *arguments: 1)
    assert web.main([]) == 1
    assert not web.STAMP.exists()
