"""The audit log's entries, and the service calls that read them. Pure."""

from typing import Any

import msgspec

from fairlead.model.web.requests import ServiceCall


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One entry. `user` and `credential` acted, under the display name `name`; both are empty if the gateway did it.

    `of`: the number of an earlier entry whose outcome this one reports. `prev` is the hash of the entry before."""

    n: int
    at: int
    action: str
    user: str = ""
    credential: str = ""
    name: str = ""
    agent: bool = False
    """An agent acted with this credential, not a person."""
    session: str = ""
    of: int = 0
    data: dict[str, Any] = {}
    prev: str
    hash: str


class AuditHead(msgspec.Struct, frozen=True):
    """The last entry that was written: its number and its hash."""

    n: int = 0
    hash: str = "0" * 64


class ReadAudit(ServiceCall["AuditPage"], frozen=True, kw_only=True):
    """-> `AuditPage`, newest first. Each filter that is not empty must match; `action` matches a beginning, such as
    `session.`"""

    before: int | None = None
    limit: int = 100
    user: str = ""
    session: str = ""
    action: str = ""


class AuditPage(msgspec.Struct, frozen=True, kw_only=True):
    """`next`: the `before` of the next page; null at the first entry. A page of a rare filter may be empty and still
    have a next one."""

    entries: tuple[AuditEntry, ...]
    head: AuditHead
    next: int | None = None
