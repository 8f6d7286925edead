"""Files, changes, project marks and the agent's commands over REST, as the original's app requests them."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from clients.claudecodeui.signed_gateway import SignedGateway
from fairlead.clients.claudecodeui.rest.git_text import branches_of, commits_of, status_of
from fairlead.clients.claudecodeui.rest.project_fields import project_id

pytestmark = pytest.mark.usefixtures("cheap_passwords")


def run(folder: Path, *words: str) -> None:
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    who = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
    subprocess.run(("git", *who, *words), cwd=folder, env=env, check=True, capture_output=True)


@pytest.fixture
async def project(signed: SignedGateway) -> str:
    await signed.create("hello")
    return project_id(str(signed.project))


async def get(signed: SignedGateway, path: str, status: int = 200) -> Any:
    answer = await signed.http.get(path)
    assert answer.status_code == status, answer.text
    return answer.json()


@pytest.mark.process
async def test_files_are_listed_and_read_and_never_changed(signed: SignedGateway, project: str) -> None:
    (signed.project / "src").mkdir()
    (signed.project / "src" / "main.py").write_text("print('hi')\n")
    (signed.project / "page.html").write_text("<script>alert(1)</script>")
    tree = f"/api/file-tree/projects/{project}"
    folder, page = await get(signed, f"{tree}/files?respectGitignore=true")
    assert (folder["name"], folder["type"], page["type"]) == ("src", "directory", "file")
    (inner,) = folder["children"]
    assert (inner["name"], inner["path"]) == ("main.py", str(signed.project / "src" / "main.py"))
    assert (await get(signed, f"{tree}/file?filePath=src/main.py"))["content"] == "print('hi')\n"
    bytes_ = await signed.http.get(f"{tree}/files/content", params={"path": page["path"]})
    assert bytes_.text == "<script>alert(1)</script>"
    assert bytes_.headers["content-type"] == "application/octet-stream"
    assert bytes_.headers["content-disposition"] == "attachment"
    for path in ("../data/admin-token", "/etc/passwd"):
        assert isinstance((await get(signed, f"{tree}/file?filePath={path}", 404))["error"], str)
    assert isinstance((await get(signed, "/api/file-tree/projects/nosuch/files", 404))["error"], str)
    refused = await signed.http.put(f"{tree}/file", json={"filePath": "src/main.py", "content": ""})
    assert (refused.status_code, refused.json()["code"]) == (403, "READ_ONLY")
    assert (signed.project / "src" / "main.py").read_text() == "print('hi')\n"


@pytest.mark.process
async def test_the_agents_files_do_not_leak_conversations_to_other_users(signed: SignedGateway) -> None:
    """A home folder that is a root contains these files; a session in them still belongs only to its owner."""
    home = signed.project.parent
    own = (".claude/projects/-project/s.jsonl", ".claude/.credentials.json", ".claude.json", ".claude.json.backup")
    for name in own:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("what ann said")
    (signed.project / ".claude").mkdir()
    (signed.project / ".claude" / "settings.json").write_text("{}")
    await signed.add("bob", scopes=["view"])
    signed.http.headers["authorization"] = f"Bearer {await signed.sign_in('bob')}"
    tree = f"/api/file-tree/projects/{project_id(str(home))}"
    for name in own:
        await get(signed, f"{tree}/file?filePath={name}", 404)
    shown = {one["name"]: one for one in await get(signed, f"{tree}/files")}
    assert not {".claude", ".claude.json", ".claude.json.backup"} & shown.keys()
    # A project's settings for its agents are a part of the project.
    assert (await get(signed, f"{tree}/file?filePath=project/.claude/settings.json"))["content"] == "{}"
    run(home, "init", "-b", "main")
    run(home, "add", "-f", ".claude", ".claude.json", "project")
    run(home, "commit", "-m", "all of it")
    (home / own[0]).write_text("what ann said next")
    query = f"project={project_id(str(home))}"
    (commit,) = (await get(signed, f"/api/git/commits?{query}&limit=10"))["commits"]
    diff: str = (await get(signed, f"/api/git/commit-diff?{query}&commit={commit['hash']}"))["diff"]
    assert "settings.json" in diff and "what ann said" not in diff
    (signed.project / ".claude" / "settings.json").write_text("{} ")
    assert (await get(signed, f"/api/git/status?{query}"))["modified"] == ["project/.claude/settings.json"]
    diff = (await get(signed, f"/api/git/diff?{query}&file=."))["diff"]
    assert "settings.json" in diff and "what ann said" not in diff
    for name in own:
        for path in ("diff", "file-with-diff"):
            await get(signed, f"/api/git/{path}?{query}&file={name}", 404)


@pytest.mark.process
async def test_folders_are_browsed_inside_the_roots(signed: SignedGateway) -> None:
    found = await get(signed, "/api/file-tree/browse-filesystem?path=~")
    assert str(signed.project) in [folder["path"] for folder in found["suggestions"]]
    assert isinstance((await get(signed, "/api/file-tree/browse-filesystem?path=/etc", 403))["error"], str)


@pytest.mark.process
async def test_changes_are_shown_as_git_reports_them(signed: SignedGateway, project: str) -> None:
    none = await get(signed, f"/api/git/status?project={project}")
    assert none["notGitRepository"] is True and isinstance(none["error"], str)
    run(signed.project, "init", "-b", "main")
    (signed.project / "a.txt").write_text("one\n")
    run(signed.project, "add", ".")
    run(signed.project, "commit", "-m", "the first")
    run(signed.project, "branch", "other")
    (signed.project / "a.txt").write_text("two\n")
    (signed.project / "new.txt").write_text("new\n")
    status = await get(signed, f"/api/git/status?project={project}")
    lists = {"modified": ["a.txt"], "added": [], "deleted": [], "untracked": ["new.txt"]}
    assert status == {"branch": "main", "hasCommits": True, **lists}
    assert "+two" in (await get(signed, f"/api/git/diff?project={project}&file=a.txt"))["diff"]
    assert "+new" in (await get(signed, f"/api/git/diff?project={project}&file=new.txt"))["diff"]
    (commit,) = (await get(signed, f"/api/git/commits?project={project}&limit=10"))["commits"]
    assert (commit["message"], commit["author"], commit["stats"][:14]) == ("the first", "Ann", "1 file changed")
    shown = await get(signed, f"/api/git/commit-diff?project={project}&commit={commit['hash']}")
    assert "+one" in shown["diff"]
    branches = await get(signed, f"/api/git/branches?project={project}")
    assert branches == {"branches": ["main", "other"], "localBranches": ["main", "other"], "remoteBranches": []}
    remote = await get(signed, f"/api/git/remote-status?project={project}")
    assert (remote["hasRemote"], remote["hasUpstream"], remote["branch"]) == (False, False, "main")
    both = await get(signed, f"/api/git/file-with-diff?project={project}&file=a.txt")
    assert (both["oldContent"], both["currentContent"]) == ("one\n", "two\n")
    refused = await signed.http.post("/api/git/commit", json={"project": project})
    assert (refused.status_code, refused.json()["code"]) == (403, "READ_ONLY")


def test_git_output_is_parsed_for_all_file_names() -> None:
    head = "# branch.oid abc\0# branch.head feature/x\0"
    lines = (
        "1 .M N... 100644 100644 100644 a a with space.txt",
        "1 A. N... 000000 100644 100644 a b added\nline",
        "1 .D N... 100644 100644 000000 a b gone",
        "2 R. N... 100644 100644 100644 a b R100 new name",
        "old name",
        "u UU N... 100644 100644 100644 100644 a b c both sides",
        "? ö",
    )
    status = status_of((head + "\0".join(lines) + "\0").encode())
    assert status["branch"] == "feature/x"
    assert status["modified"] == ["with space.txt", "new name", "both sides"]
    assert (status["added"], status["deleted"], status["untracked"]) == (["added\nline"], ["gone"], ["ö"])
    assert commits_of(b"") == []
    assert branches_of(b"refs/heads/a\0*\nrefs/remotes/o/HEAD\0 \nrefs/remotes/o/b\0 \n") == {
        "branches": ["a", "b"],
        "localBranches": ["a"],
        "remoteBranches": ["o/b"],
    }


@pytest.mark.process
async def test_projects_are_starred_renamed_and_archived_per_user(signed: SignedGateway, project: str) -> None:
    path = f"/api/projects/{project}"
    assert (await signed.http.post(f"{path}/toggle-star")).json() == {"success": True, "isStarred": True}
    assert (await signed.http.put(f"{path}/rename", json={"displayName": " My  app "})).status_code == 200

    async def listed(where: str = "/api/projects") -> dict[str, Any]:
        found = await get(signed, where)
        return {one["projectId"]: one for one in (found if isinstance(found, list) else found["data"]["projects"])}

    mine = (await listed())[project]
    assert (mine["displayName"], mine["isStarred"]) == ("My app", True)
    assert (await signed.http.request("DELETE", f"{path}?force=true")).status_code == 200
    assert project not in await listed()
    assert (await listed("/api/projects/archived"))[project]["displayName"] == "My app"
    await signed.add("bob")
    bob = {"authorization": f"Bearer {await signed.sign_in('bob')}"}
    others = (await signed.http.get("/api/projects", headers=bob)).json()
    assert "My app" not in [one["displayName"] for one in others]
    assert (await signed.http.post(f"{path}/restore")).status_code == 200
    assert project in await listed()
    assert signed.project.exists()


@pytest.mark.process
async def test_unsupported_features_are_answered_so_that_the_app_hides_them(signed: SignedGateway) -> None:
    assert await get(signed, "/api/voice/health") == {"configured": False}
    assert (await signed.data("/api/providers/claude/auth/status"))["authenticated"] is True
    assert (await signed.data("/api/providers/codex/auth/status"))["authenticated"] is False
    assert (await signed.data("/api/providers/claude/mcp/servers?scope=user"))["servers"] == []
    assert await get(signed, "/api/settings/api-keys") == {"apiKeys": []}
    install = await signed.http.post("/api/plugins/install", json={"url": "https://example.org/x"})
    assert install.status_code == 403 and isinstance(install.json()["error"], str)


@pytest.mark.process
async def test_the_agents_commands_are_offered(signed: SignedGateway) -> None:
    body = {"projectPath": str(signed.project)}
    assert (await signed.http.post("/api/commands/list", json=body)).json()["count"] == 0
    await signed.run(await signed.create("hello"), "SCRIPT:text hello")
    offered = (await signed.http.post("/api/commands/list", json=body)).json()
    assert offered["count"] == len(offered["custom"]) > 0
    assert all(command["name"].startswith("/") for command in offered["custom"])
    done = await signed.http.post("/api/commands/execute", json={"commandName": "/compact", "args": ["now"]})
    assert done.json()["content"] == "/compact now"
