"""Joins the handlers of all parts for the server."""

from collections.abc import Iterable, Mapping

from fairlead.agents.context import WiredKind
from fairlead.audit.gateway import audited
from fairlead.audit.log import AuditLog
from fairlead.model.web.requests import ServiceHandlers
from fairlead.sessions.ownership import SessionOwnership


def join_handlers(
    ownership: SessionOwnership,
    audit: AuditLog,
    calls: Iterable[ServiceHandlers],
    pages: Iterable[ServiceHandlers],
    kinds: Mapping[str, WiredKind],
) -> ServiceHandlers:
    """`calls` are recorded, `pages` only serve files; the handlers of agent kinds are for agents."""
    recorded = {kind: handler for handlers in calls for kind, handler in handlers.items()}
    served = {kind: handler for handlers in pages for kind, handler in handlers.items()}
    joined = dict(ownership.guarded({**audited(recorded, audit), **served}))
    for kind in kinds.values():
        joined.update(kind.handlers())
    return joined
