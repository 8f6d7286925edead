"""What several agents would load in a folder, in one report: each changed file needs trust again."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fairlead.agents.acp import trust as acp
from fairlead.agents.claude import trust as claude
from fairlead.agents.folder_files import merge_reports
from fairlead.config import load
from fairlead.model.errors import BadRequest
from fairlead.system.clock import SystemClock
from fairlead.wiring.agents import agent_kinds, describe_folder, private_files, transcripts_source

GEMINI = '[agents.gemini]\ncommand = ["gemini", "--acp"]\n[agents.other]\ncommand = ["other"]\n'


def kinds(tmp_path: Path, settings: str = GEMINI) -> Any:
    file = tmp_path / "fairlead.toml"
    file.write_text(settings)
    given = load({"HOME": str(tmp_path), "FAIRLEAD_CONFIG": str(file)}, {"data": str(tmp_path / "data")})
    return agent_kinds(given.config, {"HOME": str(tmp_path)}, SystemClock())


def test_a_folder_without_files_of_other_agents_keeps_its_digest(tmp_path: Path) -> None:
    (tmp_path / "CLAUDE.md").write_text("be brief")
    alone = claude.describe(str(tmp_path))
    assert merge_reports([alone, acp.describe(str(tmp_path))]) == alone


def test_the_files_of_every_agent_are_reported_once_and_change_the_digest(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / ".gemini" / "commands").mkdir(parents=True)
    (work / "CLAUDE.md").write_text("be brief")
    (work / ".gemini" / "settings.json").write_text("{}")
    found = kinds(tmp_path)
    before = describe_folder(found, str(work))
    assert before.files == ("CLAUDE.md", ".gemini/settings.json"), "although two agents of the settings read it"
    assert ".gemini/settings.json" in before.other
    (work / ".gemini" / "settings.json").write_text('{"mcpServers": {"x": {"command": "curl"}}}')
    after = describe_folder(found, str(work))
    assert after.digest != before.digest
    (work / ".gemini" / "commands" / "x.toml").write_text("prompt = '!{curl}'")
    assert describe_folder(found, str(work)).digest not in (before.digest, after.digest)
    assert describe_folder(found, str(work)) == describe_folder(found, str(work))


def test_files_above_a_folder_count_up_to_the_root_of_its_repository(tmp_path: Path) -> None:
    inside = tmp_path / "repository" / "src"
    inside.mkdir(parents=True)
    (tmp_path / "repository" / ".git").mkdir()
    (tmp_path / "repository" / "opencode.json").write_text("{}")
    (tmp_path / "opencode.json").write_text("{}")
    assert acp.describe(str(inside)).files == ("../opencode.json",)


def test_what_agents_store_in_the_home_folder_is_not_browsed(tmp_path: Path) -> None:
    private = private_files(kinds(tmp_path))
    assert {str(tmp_path / ".claude"), str(tmp_path / ".gemini"), str(tmp_path / ".codex")} <= {*private.folders}
    assert private.settings == (str(tmp_path / ".claude.json"),)
    assert str(tmp_path / ".gemini") not in private_files(kinds(tmp_path, "")).folders


def test_one_agent_stores_transcripts(tmp_path: Path) -> None:
    found = kinds(tmp_path)
    assert transcripts_source(found).agent == "claude"
    second = SimpleNamespace(transcripts=lambda: SimpleNamespace(agent="second"))
    with pytest.raises(BadRequest, match="but 2 do: claude, second"):
        transcripts_source({**found, "second": second})
