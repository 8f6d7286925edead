"""The data of a removed user: every node deletes its own, and a node that is away does so at its next start."""

import asyncio
from pathlib import Path

from cell import Cell
from fairlead.auth.api.credentials import RemoveUser, RevokeCredential
from fairlead.model.auth import Identity
from fairlead.model.web.requests import ServiceHandlers
from fairlead.server.dispatch import REMOVED_USERS, RemovalCleanup
from patience import PATIENCE

ADMIN = Identity("cred-ann", "owner", "ann", frozenset({"admin"}))


class Services:
    """One node's services, which record what they are told to forget."""

    def __init__(self, cell: Cell, node: str, users: set[str]) -> None:
        self.users = users
        self.forgotten: list[str] = []
        self.cleanup = RemovalCleanup(
            documents=cell.stores[node].documents,
            is_user=users.__contains__,
            revoked=(self.forget,),
            removed=(self.forget,),
            node=node,
            nodes=lambda: [other.name for other in cell.stores[node].peers.nodes()],
        )
        self.stop = self.cleanup.follow()

    async def forget(self, name: str) -> None:
        self.forgotten.append(name)

    async def remove(self, who: Identity, action: RemoveUser) -> tuple[str, ...]:
        self.users.discard(action.name)
        return ("cred-1",)

    async def revoke(self, who: Identity, action: RevokeCredential) -> None:
        raise AssertionError("not in this test")

    async def remove_user(self, name: str) -> None:
        handlers: ServiceHandlers = {RemoveUser: self.remove, RevokeCredential: self.revoke}
        await self.cleanup.with_cleanup(handlers)[RemoveUser](ADMIN, RemoveUser(name))


async def until(done: list[str], number: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while len(done) < number:
            await asyncio.sleep(0.002)


async def test_every_node_forgets_a_removed_user_and_the_last_one_ends_it(tmp_path: Path) -> None:
    cell, users = Cell(tmp_path), {"ann", "bob"}
    here, there, away = [Services(cell, (await cell.open(name)).node, users) for name in ("here", "there", "away")]
    documents = cell.stores["here"].documents
    away.stop()
    await here.remove_user("ann")
    assert here.forgotten == ["cred-1", "ann"], "when it is answered, it is done here"
    await until(there.forgotten, 2)
    assert there.forgotten == ["cred-1", "ann"]
    await there.cleanup._tasks.wait()
    assert (await documents.list(REMOVED_USERS))["ann"]["nodes"] == ["away"]
    await here.cleanup.start()
    assert here.forgotten == ["cred-1", "ann"], "once"
    # A user of the same name is another person, who has nothing on the node that was away.
    users.add("ann")
    await away.cleanup.start()
    assert away.forgotten == ["cred-1", "ann"]
    assert await documents.list(REMOVED_USERS) == {}
    for store in cell.stores.values():
        await store.close()


async def test_a_gateway_that_died_before_it_removed_the_user_leaves_the_user_alone(tmp_path: Path) -> None:
    cell = Cell(tmp_path)
    documents = (await cell.open("here")).documents
    here = Services(cell, "here", {"ann"})
    await documents.put(REMOVED_USERS, "ann", {})
    await documents.put(REMOVED_USERS, "bob", ["cred-9"])
    await here.cleanup.start()
    assert here.forgotten == ["cred-9", "bob"], "stored by an earlier version, whose user is gone"
    assert await documents.list(REMOVED_USERS) == {}
    await cell.stores["here"].close()
