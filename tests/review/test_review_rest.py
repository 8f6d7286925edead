"""The review over REST on a whole gateway: the turns of a real session, two users, scopes."""

import os
from pathlib import Path
from typing import Any

import pytest

from browser.chromium import eventually
from fairlead import wiring
from fairlead.config import Config
from local_http import local_client
from review.repositories import git, repository

pytestmark = pytest.mark.process


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

            async def kept() -> bool:
                return (tmp_path / "data" / "review" / made["session"]).exists()

            assert not await eventually(kept, lambda there: not there)
