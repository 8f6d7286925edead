"""Users: the names that credentials belong to, with password hash and scopes for users who sign in.

All of them are in memory after `load`, so that the gate can check a user's token without waiting.
"""

import re
from typing import Any, Final

import msgspec

from fairlead.auth.api.credentials import DEFAULT_SCOPES, UserView
from fairlead.auth.tokens import SECRET_BYTES, Random, check_scopes
from fairlead.model.auth import OWNER, Scope
from fairlead.model.errors import BadRequest, NotFound, Stale
from fairlead.model.store import Documents
from fairlead.system.clock import Clock

SPACE: Final = "users"
NUMBERS: Final = "user_numbers"
"""The numbers of users; those of removed users stay, so that no number is used twice."""
SIGNER: Final = "A user who signs in"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


class StoredUser(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A user in the store. `password` is a hash, empty for a user without a password; `salt` is part of the key that
    signs the user's tokens: changing it invalidates all of them."""

    name: str
    created: int
    number: int = 0
    scopes: tuple[Scope, ...] = ()
    password: str = ""
    salt: str = ""

    def view(self) -> UserView:
        return UserView(name=self.name, created=self.created, password=bool(self.password), scopes=self.scopes)


class Users:
    def __init__(self, documents: Documents, clock: Clock, random: Random) -> None:
        self._documents = documents
        self._clock = clock
        self._random = random
        self._records: dict[str, StoredUser] = {}
        self._numbers: dict[int, StoredUser] = {}

    async def load(self) -> tuple[StoredUser, ...]:
        """Read everything from the store again. Returns the users whose tokens became invalid."""
        found = await self._documents.list(SPACE)
        records = {name: msgspec.convert(value, StoredUser) for name, value in found.items()}
        gone = [old for name, old in self._records.items() if old.number and salt_of(records.get(name)) != salt_of(old)]
        self._records = records
        self._numbers = {record.number: record for record in records.values() if record.number}
        return tuple(gone)

    def heard(self, name: str, value: Any | None) -> StoredUser | None:
        """Take a change over that this or another node stored. Returns the user if its tokens became invalid."""
        old = self._records.get(name)
        record = None if value is None else msgspec.convert(value, StoredUser)
        if record is None:
            self._forget(name)
        else:
            self._keep(record)
        return old if old is not None and old.number and salt_of(record) != salt_of(old) else None

    # --- lookups: without waiting

    def get(self, name: str) -> StoredUser | None:
        return self._records.get(name)

    def by_number(self, number: int) -> StoredUser | None:
        """Return the user with this number, if that user can sign in."""
        return self._numbers.get(number)

    def list(self) -> tuple[UserView, ...]:
        return tuple(record.view() for _, record in sorted(self._records.items()))

    def check(self, name: str) -> str:
        """Return the name. Raises NotFound if there is no such user."""
        if name not in self._records:
            raise NotFound("user", name)
        return name

    def check_free(self, name: str) -> None:
        """Raise BadRequest for a malformed name, Stale for a name in use."""
        if not _NAME.fullmatch(name):
            raise BadRequest("A user's name has 1 to 64 of a-z, 0-9 and ._-, and begins with a letter or digit.")
        if name in self._records:
            raise Stale(f"There is a user {name} already.", name=name)

    def check_removable(self, name: str) -> None:
        """Raise BadRequest for the owner, NotFound for an unknown user."""
        if name == OWNER:
            raise BadRequest("The owner of the gateway cannot be removed.")
        self.check(name)

    # --- changes

    async def add(self, name: str, password: str = "", scopes: tuple[Scope, ...] = DEFAULT_SCOPES) -> StoredUser:
        """Add a user. `password` is a hash; without one the user cannot sign in."""
        self.check_free(name)
        record = StoredUser(name=name, created=self._clock.now_ms())
        if password:
            record = await self._with_password(record, password, check_scopes(scopes, SIGNER))
        if not await self._documents.add(SPACE, name, msgspec.to_builtins(record)):
            raise Stale(f"There is a user {name} already.", name=name)
        self._keep(record)
        return record

    async def ensure(self, name: str) -> None:
        if name not in self._records:
            await self.add(name)

    async def set_password(self, name: str, password: str) -> StoredUser:
        """Set a password and a new salt; number and scopes stay the same."""
        self.check(name)
        record = await self._with_password(self._records[name], password, self._records[name].scopes or DEFAULT_SCOPES)
        # First in memory, then in the store: a store that fails must not keep the old password valid.
        self._keep(record)
        await self._documents.put(SPACE, name, msgspec.to_builtins(record))
        return record

    async def remove(self, name: str) -> None:
        self.check_removable(name)
        self._forget(name)
        await self._documents.delete(SPACE, name)

    async def _with_password(self, record: StoredUser, password: str, scopes: tuple[Scope, ...]) -> StoredUser:
        number = record.number or await self._number(record.name)
        salt = self._random(SECRET_BYTES).hex()
        return msgspec.structs.replace(record, password=password, scopes=scopes, number=number, salt=salt)

    async def _number(self, name: str) -> int:
        number = 1 + max(self._numbers, default=0)
        while not await self._documents.add(NUMBERS, str(number), name):
            number += 1
        return number

    def _forget(self, name: str) -> None:
        record = self._records.pop(name, None)
        if record is not None:
            self._numbers.pop(record.number, None)

    def _keep(self, record: StoredUser) -> None:
        self._records[record.name] = record
        if record.number:
            self._numbers[record.number] = record


def salt_of(record: StoredUser | None) -> str:
    return "" if record is None else record.salt
