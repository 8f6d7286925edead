"""The review and worktrees over REST on a whole gateway: the turns of a real session, two users, scopes."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from fairlead import wiring
from fairlead.config import Config
from local_http import local_client
from patience import PATIENCE
from review.repositories import SETTINGS, git, repository

pytestmark = pytest.mark.process
T = TypeVar("T")


async def eventually(look: Callable[[], Awaitable[T]], holds: Callable[[T], bool]) -> T:
    """Look until the result fits, and return it."""
    async with asyncio.timeout(PATIENCE):
        while not holds(seen := await look()):
            await asyncio.sleep(0.05)
    return seen


async def test_a_session_of_another_user_has_no_changes_to_see(tmp_path: Path) -> None:
    work = tmp_path / "work"
    project = repository(work / "project")
    config = Config(port=0, data=str(tmp_path / "data"), agent="demo", roots=(str(work),), claude_homes=())
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    async with (
        wiring.running(config, env) as running,
        local_client(base_url=running.url, headers={"authorization": f"Bearer {running.token}"}) as admin,
    ):

        async def person(name: str, *scopes: str) -> Any:
            if name not in {user["name"] for user in (await admin.get("/v1/users")).json()["users"]}:
                await admin.post("/v1/users", json={"name": name})
            body = {"name": f"{name} {' '.join(scopes)}", "user": name, "scopes": list(scopes)}
            token = (await admin.post("/v1/tokens", json=body)).json()["secret"]
            return local_client(base_url=running.url, headers={"authorization": f"Bearer {token}"})

        ann, looker, bob = (
            await person("ann", "view", "chat", "approve"),
            await person("ann", "view"),
            await person("bob", "view", "chat", "approve"),
        )
        async with ann, looker, bob:
            made = (await ann.post("/v1/sessions", json={"cwd": str(project), "text": "hello"})).json()
            path = f"/v1/sessions/{made['session']}/changes"

            async def turns() -> list[dict[str, Any]]:
                found: list[dict[str, Any]] = (await ann.get(path)).json().get("turns", [])
                return found

            found = await eventually(turns, lambda found: bool(found) and "running" not in found[0])
            assert found[0]["prompt"] == "hello"
            (project / "a.txt").write_text("changed\n")
            listed = (await looker.get(path)).json()
            assert [file["path"] for file in listed["files"]] == ["a.txt"]
            query = {name: listed[name] for name in ("before", "after")} | {"key": "a.txt"}
            assert (await looker.get(f"{path}/file", params=query)).json()["rows"][-1] == ["+", 0, 1, "changed"]

            calls = {
                "stage": {"files": ["a.txt"]},
                "commit": {"message": "x"},
                "discard": {"files": ["a.txt"]},
                "restore": {"files": ["a.txt"], "tree": listed["before"]},
            }
            for name, body in calls.items():
                assert (await looker.post(f"{path}/{name}", json=body)).status_code == 403, name
                assert (await bob.post(f"{path}/{name}", json=body)).status_code == 404, name
            assert (await bob.get(path)).status_code == 404
            assert (await bob.get(f"{path}/file", params=query)).status_code == 404
            assert (project / "a.txt").read_text() == "changed\n"
            assert git(project, "status", "--porcelain") == b" M a.txt\n"

            assert (await ann.post(f"{path}/stage", json=calls["stage"])).json() == {"staged": 1}
            await ann.delete(f"/v1/sessions/{made['session']}")

            snapshots = tmp_path / "data" / "review" / str(made["session"])

            async def kept() -> bool:
                return snapshots.exists()

            assert not await eventually(kept, lambda there: not there)


async def test_a_session_in_a_worktree_from_its_start_to_its_merge(tmp_path: Path) -> None:
    work = tmp_path / "work"
    project = repository(work / "project")
    (tmp_path / ".gitconfig").write_text(SETTINGS)
    config = Config(port=0, data=str(tmp_path / "data"), agent="demo", roots=(str(work),), claude_homes=())
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    async with (
        wiring.running(config, env) as running,
        local_client(base_url=running.url, headers={"authorization": f"Bearer {running.token}"}) as admin,
    ):
        body = {"cwd": str(project), "worktree": {"branch": "fix"}}
        sessions = [(await admin.post("/v1/sessions", json=body)).json()["session"] for _ in range(2)]
        tree = project / ".worktrees" / "fix"
        for session in sessions:
            view = (await admin.get(f"/v1/sessions/{session}")).json()
            assert view["summary"]["cwd"] == str(tree), "both share it"
        listed = (await admin.get("/v1/worktrees", params={"folder": str(project)})).json()["worktrees"]
        assert [(one["path"], one["branch"], len(one.get("sessions", ()))) for one in listed] == [
            (str(project), "main", 0),
            (str(tree), "fix", 2),
        ]
        path = f"/v1/sessions/{sessions[0]}"
        (tree / "a.txt").write_text("changed\n")
        found = (await admin.get(f"{path}/changes", params={"base": "commit"})).json()
        assert [file["path"] for file in found["files"]] == ["a.txt"]
        assert (found["git"]["branch"], found["git"]["worktree_of"]) == ("fix", str(project))
        state = (await admin.post(f"{path}/worktree", json={"how": "keep"})).json()["state"]
        assert (state["into"], state["uncommitted"]) == ("main", 1)
        refused = await admin.post(f"{path}/worktree", json={"how": "discard"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "unsaved_work")
        assert (await admin.post(f"{path}/worktree", json={"how": "merge"})).status_code == 409

        await admin.post(f"{path}/changes/stage", json={"files": ["a.txt"]})
        await admin.post(f"{path}/changes/commit", json={"message": "Fix it"})
        assert (await admin.post(f"{path}/worktree", json={"how": "merge"})).status_code == 200
        assert (project / "a.txt").read_text() == "changed\n"
        await admin.delete(path)
        assert tree.is_dir(), "deleting a session keeps its worktree"
        other = f"/v1/sessions/{sessions[1]}/worktree"
        assert (await admin.post(other, json={"how": "discard"})).status_code == 200
        assert not tree.exists()

        token = (await admin.post("/v1/tokens", json={"name": "looker", "scopes": ["view"]})).json()["secret"]
        await admin.post("/v1/sessions", json={**body, "session": sessions[0]})
        async with local_client(base_url=running.url, headers={"authorization": f"Bearer {token}"}) as looker:
            for how in ("merge", "discard"):
                assert (await looker.post(f"/v1/sessions/{sessions[1]}/worktree", json={"how": how})).status_code == 403
        assert (await admin.post("/v1/sessions", json={**body, "worktree": {"branch": "-x"}})).status_code == 400
