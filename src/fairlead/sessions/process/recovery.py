"""Follows a process that outlived its gateway: a child of an earlier gateway, or a process that a shim lends."""

import asyncio

from fairlead.model.agents import ProcessInfo
from fairlead.sessions.process.connection import AgentConnection, child_name, exit_key
from fairlead.sessions.process.supervisor import AgentSupervisor


async def follow(supervisor: AgentSupervisor, child: ProcessInfo, *, end: bool) -> None:
    """Follow the transcript of a process that outlived its gateway; the session is free again when it exits. `end`:
    stop the process first, unless it is lent."""
    supervisor.following = True
    core, name = supervisor.core, child_name(child)
    connection = supervisor.connect(None, name, child.agent_session)
    connection.child = name
    try:
        if await core.log.store.find(core.session, exit_key(name)) is not None:
            await core.services.forget_child(core.session)
        elif child.lent:
            # Sets `recovered`: only then does a shim that reconnects find what it replaces.
            await _wait_for_shim(supervisor, child, connection)
        else:
            supervisor.recovered.set()
            await supervisor.cancel_pending()
            if end:
                await supervisor.kind.end(child)
            await supervisor.kind.follow(child, connection, core.state.last_prompt)
    finally:
        supervisor.recovered.set()
        supervisor.following = False
        if not connection.gone and not connection.released:
            await supervisor.close_lost()
        supervisor.schedule_next()


async def _wait_for_shim(supervisor: AgentSupervisor, child: ProcessInfo, connection: AgentConnection) -> None:
    """Wait until the shim of a lent process reconnects, or the process has exited: then its transcript completes the
    log. The open turn and the open requests stay as they are."""
    supervisor.lent_process = child_name(child)
    last_prompt = supervisor.core.state.last_prompt
    waiting = supervisor.waiting_for_shim = asyncio.create_task(supervisor.kind.follow(child, connection, last_prompt))
    supervisor.recovered.set()
    try:
        await asyncio.wait({waiting})
    except asyncio.CancelledError:
        # The gateway stops; the next one waits again.
        connection.released = True
        waiting.cancel()
        await asyncio.wait({waiting})
        raise
    finally:
        supervisor.waiting_for_shim = None
    if waiting.cancelled():
        connection.released = True
    else:
        waiting.result()
