"""Requests about sessions that need nothing of the connection: the list, the configuration, further chats. Pure."""

from collections.abc import Callable, Generator
from typing import Any, Final

from fairlead.clients.ahp.channels import PROVIDER, chat_of, session_of
from fairlead.clients.ahp.session_config import new_session_schema, values_of
from fairlead.clients.ahp.session_list import session_summary
from fairlead.clients.ahp.wire import (
    ALREADY_EXISTS,
    INVALID_PARAMS,
    PROVIDER_NOT_FOUND,
    SESSION_NOT_FOUND,
    AhpError,
    Fields,
    object_of,
    text_of,
)
from fairlead.model import queries as q
from fairlead.model.store import SessionFilter
from fairlead.model.web.requests import do
from fairlead.sessions.api.folders import ReadSessionChoices

Steps = Generator[Any, Any, Any]

SESSIONS: Final = 500
"""Sessions in one page of a list."""


def _list_sessions(params: Fields) -> Steps:
    limit, cursor = params.get("limit"), params.get("cursor")
    most = limit if isinstance(limit, int) and 0 < limit <= SESSIONS else SESSIONS
    before = cursor if isinstance(cursor, str) else ""
    page = yield from do(q.ListSessions(SessionFilter(limit=most, before=before)))
    more = {"nextCursor": page.next} if page.next else {}
    return {"items": [session_summary(summary) for summary in page.sessions], **more}


def _resolve_config(params: Fields) -> Steps:
    check_provider(params)
    choices, agents = (yield from do(ReadSessionChoices())), (yield from do(q.ListAgents()))
    schema = new_session_schema(choices.modes, agents)
    return {"schema": schema, "values": values_of(schema, object_of(params, "config"))}


def _create_chat(params: Fields) -> Steps:
    session, chat = session_of(text_of(params, "channel")), chat_of(text_of(params, "chat"))
    if session is None:
        raise AhpError(SESSION_NOT_FOUND, "There is no such session.")
    yield q.GetSession(session)
    if chat == session:
        raise AhpError(ALREADY_EXISTS, "This is the session's own chat.")
    raise AhpError(INVALID_PARAMS, "A session of this host has one chat: create another session.")


def check_provider(params: Fields) -> None:
    if params.get("provider") != PROVIDER:
        raise AhpError(PROVIDER_NOT_FOUND, f"The one provider of this host is {PROVIDER}.")


HANDLERS: Final[dict[str, Callable[[Fields], Steps]]] = {
    "listSessions": _list_sessions,
    "resolveSessionConfig": _resolve_config,
    "createChat": _create_chat,
}
