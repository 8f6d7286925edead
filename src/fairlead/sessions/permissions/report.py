"""Report on a pending request: its commands, the changes to files, the calls that a rule would cover."""

import asyncio
from typing import Final

import msgspec

from fairlead.model import queries as q
from fairlead.sessions.permissions.policy.call import ToolCall
from fairlead.sessions.permissions.policy.explain import file_change, lay_out, rule_scope, suggested
from fairlead.sessions.session import Session
from fairlead.sessions.state import PendingRequest
from fairlead.system.regular_files import read_text

LARGEST: Final = 256 << 10
"""Largest file, in bytes, that is shown whole before and after the change: people read it on phones too."""


async def explain(session: Session, pending: PendingRequest, query: q.ExplainPermission) -> q.PermissionReport:
    state, context = session.core.state, session.asking.context()
    call = ToolCall(pending.tool, pending.input)
    layout = lay_out(call, context)
    files: tuple[q.FileChange, ...] = ()
    if layout.edited is not None:
        path, place = layout.edited
        # The report has the text only of files that the session itself may read: any subscriber may ask for it.
        text = None if place is None else await asyncio.to_thread(read_text, place, LARGEST)
        files = (file_change(context.tools.find(pending.tool), pending.input, path, text, outside=place is None),)
    return q.PermissionReport(
        session=session.core.session,
        seq=pending.seq,
        event=msgspec.Raw(pending.event),
        title=state.summary().title,
        cwd=state.cwd,
        commands=layout.commands,
        writes=layout.writes,
        doubts=layout.doubts,
        host=layout.host,
        files=files,
        suggested=suggested(call, context),
        rule=rule_scope(query.rule, call, context, admin=query.admin) if query.rule else None,
        fixed_input="edited_input" not in session.kind.capabilities,
    )
