"""One file from which all nodes of a cluster derive the keys that they share."""

from pathlib import Path
from typing import get_args

import pytest

from auth.fakes import FakeTokenBytes, MemoryDocuments
from fairlead.auth.cluster_key import ClusterKey, Label, make_cluster_key
from fairlead.auth.credentials import Credentials
from fairlead.model.errors import BadRequest
from fairlead_testing.clock import ManualClock


def test_equal_files_give_equal_keys_and_each_label_another_one(tmp_path: Path) -> None:
    file = tmp_path / "cluster.key"
    make_cluster_key(file)
    assert file.stat().st_mode & 0o077 == 0
    here, there = ClusterKey.read(file), ClusterKey.read(file)
    keys = {label: here.derive(label) for label in get_args(Label)}
    assert keys == {label: there.derive(label) for label in get_args(Label)}
    assert len(set(keys.values())) == len(keys)
    with pytest.raises(BadRequest, match="exists already"):
        make_cluster_key(file)
    make_cluster_key(tmp_path / "other.key")
    assert ClusterKey.read(tmp_path / "other.key").derive("users") != keys["users"]


@pytest.mark.parametrize(
    ("text", "mode", "problem"),
    [("", 0o600, "too short"), ("x" * 15 + "\n", 0o600, "too short"), ("x" * 64, 0o640, "chmod 600")],
)
def test_a_file_that_is_no_good_key_is_refused(tmp_path: Path, text: str, mode: int, problem: str) -> None:
    file = tmp_path / "cluster.key"
    file.write_text(text)
    file.chmod(mode)
    with pytest.raises(BadRequest, match=problem):
        ClusterKey.read(file)


def test_a_missing_file_is_refused_and_never_created(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="cannot be read"):
        ClusterKey.read(tmp_path / "cluster.key")
    assert not list(tmp_path.iterdir())


async def test_tokens_links_and_tickets_of_one_node_are_valid_on_another(tmp_path: Path) -> None:
    make_cluster_key(tmp_path / "cluster.key")
    documents, clock = MemoryDocuments(), ManualClock()

    async def node(file: Path) -> Credentials:
        key = ClusterKey.read(file)
        made = Credentials(
            documents,
            clock,
            FakeTokenBytes(),
            key=lambda: key.derive("users"),
            url_key=lambda: key.derive("urls"),
            ticket_key=lambda: key.derive("tickets"),
        )
        await made.load()
        return made

    here = await node(tmp_path / "cluster.key")
    user = await here.accounts.add("ann", "a long password", ("view",))
    token = await here.create("token", "a", ("view",))
    there = await node(tmp_path / "cluster.key")
    assert there.account(here.accounts.token(user).token) == there.accounts.identity_of(
        user, here.accounts.token(user).expires
    )
    path, _, query = here.sign(token.credential.id, "/v1/x", "").url.partition("?")
    assert there.signature(path, query) == there.identity(token.credential.id)
    assert there.ticket(here.tickets.issue(token.credential.id).ticket) == there.identity(token.credential.id)
    make_cluster_key(tmp_path / "other.key")
    stranger = await node(tmp_path / "other.key")
    assert stranger.account(here.accounts.token(user).token) is None
    assert stranger.signature(path, query) is None
    assert stranger.ticket(here.tickets.issue(token.credential.id).ticket) is None
