"""REST for the audit log."""

from typing import Final

from fairlead.audit.api import AuditPage, ReadAudit
from fairlead.model.web.routes import Param, Request, Routes, Steps, json_response

routes = Routes()
MOST: Final = 500
_LAST: Final = 10**15


@routes.get(
    "/v1/audit",
    "admin",
    "audit.list",
    answer=AuditPage,
    query=(
        Param("before", int, "Only entries with a smaller number: the next of an earlier answer."),
        Param("limit", int, f"The number of entries, at most {MOST}; 100 by default."),
        Param("user", str, "Only entries of this user."),
        Param("session", str, "Only entries on this session, also a deleted one."),
        Param("action", str, "Only actions that begin so, such as session. or permission.answer."),
    ),
)
def list_entries(request: Request) -> Steps:
    """Who did what, newest first."""
    query = request.query
    call = ReadAudit(
        before=request.query_int("before", 0, 1, _LAST) if "before" in query else None,
        limit=request.query_int("limit", 100, 1, MOST),
        user=query.get("user", ""),
        session=query.get("session", ""),
        action=query.get("action", ""),
    )
    return json_response((yield call))
