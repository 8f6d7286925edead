"""Users: names that credentials belong to. What a user may do is said by each credential, not here."""

import re
from typing import Final

import msgspec

from fairlead.model.admin import UserView
from fairlead.model.errors import BadRequest, NotFound, Stale
from fairlead.model.store import Documents
from fairlead.system.clock import Clock

SPACE: Final = "users"
OWNER: Final = "owner"
"""The person whose gateway this is: there from the first start."""
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


class Users:
    def __init__(self, documents: Documents, clock: Clock) -> None:
        self._documents = documents
        self._clock = clock

    async def add(self, name: str) -> UserView:
        if not _NAME.fullmatch(name):
            raise BadRequest("A user's name has 1 to 64 of a-z, 0-9 and ._-, and begins with a letter or digit.")
        view = UserView(name=name, created=self._clock.now_ms())
        if not await self._documents.add(SPACE, name, msgspec.to_builtins(view)):
            raise Stale(f"There is a user {name} already.", name=name)
        return view

    async def list(self) -> tuple[UserView, ...]:
        found = await self._documents.list(SPACE)
        return tuple(sorted((msgspec.convert(value, UserView) for value in found.values()), key=lambda user: user.name))

    async def check(self, name: str) -> str:
        """The name, if there is such a user."""
        if await self._documents.get(SPACE, name) is None:
            raise NotFound("user", name)
        return name

    async def ensure(self, name: str) -> None:
        await self._documents.add(SPACE, name, msgspec.to_builtins(UserView(name=name, created=self._clock.now_ms())))
