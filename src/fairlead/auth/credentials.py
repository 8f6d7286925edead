"""Credentials: tokens and device keys, looked up in memory, kept in the store; revoking one closes its connections.

All of them are in memory (`load`), so that the gate decides without waiting. Changes that another node makes in the
store are heard, and take effect at once: the connections of a credential that was revoked there are closed here.
"""

import logging
import re
from collections.abc import Callable
from secrets import token_bytes
from typing import Any, Final

import msgspec

from fairlead.auth import signed_urls
from fairlead.auth.accounts import INVITED_MS, Accounts, credential_of
from fairlead.auth.agent_tokens import AgentTokens
from fairlead.auth.api.credentials import CredentialKind, NewCredential, SignedUrl
from fairlead.auth.basic import BasicSignIn
from fairlead.auth.login_codes import LoginCodes
from fairlead.auth.session_agents import SessionAgentTokens
from fairlead.auth.tickets import Tickets
from fairlead.auth.tokens import SECRET_BYTES, CredentialRecord, Random, check_scopes, digest, mint, parse_token_id
from fairlead.auth.users import SPACE as USERS
from fairlead.auth.users import Users
from fairlead.model.auth import OWNER, Identity, Scope
from fairlead.model.errors import BadRequest, FairleadError, NotFound
from fairlead.model.store import Documents, Stop
from fairlead.system.clock import Clock, Timer
from fairlead.system.tasks import TaskSet

SPACE: Final = "credentials"
USED: Final = "credentials.used"
"""Times of last use: separate from the records, so that storing one changes nothing else of a record."""
INVITATIONS: Final = "invitations"
ENVIRONMENT_TOKEN_ID: Final = "given"
"""The id of the token from the environment: valid while it is set there, never stored."""
_HEADER_SAFE: Final = re.compile(r"[!-~]+")
_NAME_LENGTH: Final = 100
_FLUSH_S: Final = 60.0
"""Delay of `last_used` in the store: people read it, and a write per request would cost more than it is worth."""

log = logging.getLogger("fairlead.auth")


def _key_of_process(random: Random) -> Callable[[], bytes]:
    key = random(SECRET_BYTES)
    return lambda: key


class Credentials:
    """Call `load` before the first lookup, `close` at the end."""

    def __init__(
        self,
        documents: Documents,
        clock: Clock,
        random: Random = token_bytes,
        key: Callable[[], bytes] | None = None,
        url_key: Callable[[], bytes] | None = None,
        ticket_key: Callable[[], bytes] | None = None,
    ) -> None:
        """`key` signs the tokens of users, `url_key` links, `ticket_key` tickets; without these, they are valid while
        this process lives."""
        self._url_key = url_key or _key_of_process(random)
        self.users = Users(documents, clock, random)
        invitations = LoginCodes(documents, clock, random, INVITATIONS, INVITED_MS)
        self.accounts = Accounts(self.users, invitations, clock, key or _key_of_process(random), self._end)
        self.basic_sign_in = BasicSignIn(self.users, self.accounts, self.bearer)
        shared = None if ticket_key is None else documents
        self.tickets = Tickets(clock, random, ticket_key or _key_of_process(random), self._binding, shared)
        self.codes = LoginCodes(documents, clock, random)
        self.agents = AgentTokens(random, self._end)
        self.session_agents = SessionAgentTokens(random, self._end)
        # The other lookups of the gate (`gate.CredentialLookup`).
        self.account = self.accounts.identity
        self.basic = self.basic_sign_in.identity
        self.agent = self.agents.identity
        self.session_agent = self.session_agents.identity
        self._documents = documents
        self._clock = clock
        self._random = random
        self._records: dict[str, CredentialRecord] = {}
        self._identities: dict[str, Identity] = {}
        self._given: CredentialRecord | None = None
        self._live: dict[object, tuple[Identity, Callable[[], None], Callable[[], None] | None]] = {}
        """The arguments of `attach` for each open connection."""
        self._dirty: set[str] = set()
        self._timer: Timer | None = None
        self._flushing = TaskSet()
        self._hearing: list[Stop] = []

    async def load(self) -> None:
        """Read everything from the store again, and hear of every change from then on."""
        if not self._hearing:
            # First, so that no change is missed between reading and listening.
            listen = self._documents.listen
            self._hearing = [listen(SPACE, self._on_record), listen(USERS, self._on_user)]
        void = await self.users.load()
        await self.users.ensure(OWNER)
        # Earlier versions stored the key here, and it went into every backup.
        await self._documents.delete("auth", "url-key")
        found = await self._documents.list(SPACE)
        used = await self._documents.list(USED)
        records = {key: msgspec.convert(value, CredentialRecord) for key, value in found.items()}
        for key, record in records.items():
            known = self._records[key].last_used if key in self._records else 0
            last = max(record.last_used, int(used.get(key, 0)), known)
            records[key] = msgspec.structs.replace(record, last_used=last)
        gone = [key for key in self._records if key not in records or records[key].revoked]
        self._records = records
        for key in (*gone, *(credential_of(record) for record in void)):
            self._end(key)

    def _on_record(self, key: str, value: Any | None) -> None:
        """Take a change over that this or another node stored. A credential that is revoked here stays so."""
        known = self._records.get(key)
        if value is None:
            if self._records.pop(key, None) is not None:
                self._end(key)
            return
        record = msgspec.convert(value, CredentialRecord)
        if known is not None:
            last = max(known.last_used, record.last_used)
            record = msgspec.structs.replace(record, last_used=last, revoked=known.revoked or record.revoked)
        self._records[key] = record
        if known is not None and record.revoked and not known.revoked:
            log.info("credential revoked elsewhere", extra={"credential": key, "sockets": self._end(key)})

    def _on_user(self, name: str, value: Any | None) -> None:
        void = self.users.heard(name, value)
        if void is not None:
            log.info("sign-in ended elsewhere", extra={"user": name, "sockets": self._end(credential_of(void))})

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for stop in self._hearing:
            stop()
        await self._flushing.wait()
        await self.flush()

    def accept_environment_token(self, token: str) -> None:
        """Accept the token from the environment as an admin's, as long as this process lives."""
        if not _HEADER_SAFE.fullmatch(token):
            raise BadRequest("FAIRLEAD_TOKEN must consist of printable ASCII characters without spaces.")
        self._given = self._record(ENVIRONMENT_TOKEN_ID, token, "token", "admin", OWNER, ("admin",))

    # --- lookups: without waiting, and a failed one reveals no reason

    def bearer(self, secret: str) -> Identity | None:
        name = parse_token_id(secret)
        record = self._records.get(name) if name else None
        if record is None:
            record = self._given
        if record is None or not record.matches(secret) or record.revoked:
            return None
        self._touch(record)
        return self._known(record)

    def ticket(self, ticket: str) -> Identity | None:
        owner = self.tickets.owner(ticket)
        return None if owner is None else self.identity(owner)

    def signature(self, path: str, query: str) -> Identity | None:
        name = signed_urls.signer(self._url_key(), path, query, self._clock.now_ms())
        return None if name is None else self.identity(name)

    def identity(self, credential: str) -> Identity | None:
        """Return the identity of a credential that is valid now: a token, a device, or a user who signs in."""
        user = self.accounts.user(credential)
        if user is not None:
            return user
        record = self._given if credential == ENVIRONMENT_TOKEN_ID else self._records.get(credential)
        return None if record is None or record.revoked else self._known(record)

    def _binding(self, credential: str) -> str | None:
        """The hash of a valid credential's secret, or a user's salt, which a new password changes."""
        user = self.accounts.record(credential)
        if user is not None:
            return user.salt
        record = self._given if credential == ENVIRONMENT_TOKEN_ID else self._records.get(credential)
        return None if record is None or record.revoked else record.digest

    def _known(self, record: CredentialRecord) -> Identity:
        """Return one object for all sockets of a credential; the fields it copies from a record never change."""
        if record.id not in self._identities:
            self._identities[record.id] = record.identity()
        return self._identities[record.id]

    # --- changes

    async def create(
        self, kind: CredentialKind, name: str, scopes: tuple[Scope, ...], user: str = OWNER
    ) -> NewCredential:
        scopes = check_scopes(scopes)
        title = " ".join(name.split())
        if not title or len(title) > _NAME_LENGTH or not title.isprintable():
            raise BadRequest(f"A credential needs a name of at most {_NAME_LENGTH} printable characters.")
        self.users.check(user)
        while True:
            key, secret = mint(self._random)
            record = self._record(key, secret, kind, title, user, scopes)
            if await self._documents.add(SPACE, key, msgspec.to_builtins(record)):
                self._records[key] = record
                log.info("credential made", extra={"credential": key, "kind": kind, "user": user, "scopes": scopes})
                return NewCredential(secret=secret, credential=record.view())

    def _record(
        self, key: str, secret: str, kind: CredentialKind, name: str, user: str, scopes: tuple[Scope, ...]
    ) -> CredentialRecord:
        now = self._clock.now_ms()
        return CredentialRecord(
            id=key, kind=kind, name=name, user=user, scopes=scopes, digest=digest(secret), created=now
        )

    def find_by_secret(self, secret: str) -> CredentialRecord | None:
        """Return the record of this token, valid or not. Used for the file with the first admin token."""
        record = self._records.get(parse_token_id(secret) or "")
        return record if record is not None and record.matches(secret) else None

    def list(self, kind: CredentialKind) -> tuple[CredentialRecord, ...]:
        """Return all credentials of a kind, oldest first, including revoked ones."""
        chosen = [record for record in self._records.values() if record.kind == kind]
        return tuple(sorted(chosen, key=lambda record: (record.created, record.id)))

    async def revoke(self, kind: CredentialKind, credential: str) -> CredentialRecord:
        record = self._records.get(credential)
        if record is None or record.kind != kind:
            raise NotFound(kind, credential)
        if not record.revoked:
            record = msgspec.structs.replace(record, revoked=self._clock.now_ms())
            # First in memory, then in the store: a store that fails must not keep the credential valid.
            self._records[credential] = record
            closed = self._end(credential)
            log.info("credential revoked", extra={"credential": credential, "kind": kind, "sockets": closed})
            await self._documents.put(SPACE, credential, msgspec.to_builtins(record))
        return record

    async def remove_user(self, name: str) -> tuple[str, ...]:
        """Remove a user and revoke all its credentials. Returns the ids of the credentials that became invalid."""
        self.users.check_removable(name)
        own = [record for record in self._records.values() if record.user == name and not record.revoked]
        for record in own:
            await self.revoke(record.kind, record.id)
        user = self.users.get(name)
        await self.accounts.remove(name)
        signed_in = () if user is None or not user.number else (credential_of(user),)
        return (*(record.id for record in own), *signed_in)

    async def login(self, code: str, name: str) -> NewCredential:
        pending = await self.codes.redeem(code)
        # The creator of the link knows whose device it is for; the browser only knows what it is.
        return await self.create("device", pending.name or name or "browser", pending.scopes, pending.user)

    def sign(self, credential: str, path: str, query: str) -> SignedUrl:
        expires = self._clock.now_ms() + signed_urls.LIFETIME_MS
        return SignedUrl(url=signed_urls.sign(self._url_key(), path, query, credential, expires), expires=expires)

    # --- open connections of a credential

    def attach(
        self, who: Identity, close: Callable[[], None], again: Callable[[], None] | None = None
    ) -> Callable[[], None]:
        """Register the callbacks of an open connection; returns a function that removes them.

        `close` is called when the credential is revoked or expires. `again` is called when the credential is still
        valid but sees less than before: the client reconnects, and its access is decided again.
        """
        connection = object()
        self._live[connection] = (who, close, again)
        left = (who.expires - self._clock.now_ms()) / 1000
        timer = self._clock.call_later(max(left, 0.0), close) if who.expires else None

        def detach() -> None:
            if timer is not None:
                timer.cancel()
            self._live.pop(connection, None)

        return detach

    def ask_to_reconnect(self, lost: Callable[[Identity], bool]) -> None:
        """Make the clients of all identities that match `lost` reconnect."""
        for who, _, again in tuple(self._live.values()):
            if again is not None and lost(who):
                again()

    def _end(self, credential: str) -> int:
        """Close all connections of a credential. Returns their number."""
        self._identities.pop(credential, None)
        ended = [key for key, (who, _, _) in self._live.items() if who.credential == credential]
        for _, close, _ in [self._live.pop(key) for key in ended]:
            close()
        return len(ended)

    # --- last use

    def _touch(self, record: CredentialRecord) -> None:
        if record.id == ENVIRONMENT_TOKEN_ID:
            return
        self._records[record.id] = msgspec.structs.replace(record, last_used=self._clock.now_ms())
        self._dirty.add(record.id)
        if self._timer is None:
            self._timer = self._clock.call_later(_FLUSH_S, self._flush_soon)

    def _flush_soon(self) -> None:
        self._timer = None
        self._flushing.spawn(self.flush())

    async def flush(self) -> None:
        """Store the times of last use."""
        for key in tuple(self._dirty):
            self._dirty.discard(key)
            try:
                await self._documents.put(USED, key, self._records[key].last_used)
            except FairleadError as error:
                log.warning("last use not kept", extra={"credential": key, "error": error.message})
