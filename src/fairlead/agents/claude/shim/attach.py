"""Takes over a process that a shim lends: its version, the record of the process, its driver."""

from typing import Final

from fairlead.agents.claude.launch import PreparedLaunch
from fairlead.agents.claude.shim.driver import ShimAgent
from fairlead.agents.claude.shim.link import ShimLink
from fairlead.agents.claude.versions import Version, parse_version
from fairlead.agents.links.dialin import DialInLink
from fairlead.model.agents import AgentSink, LentProcess, ProcessInfo
from fairlead.model.errors import BadRequest
from fairlead.model.ids import is_uuid
from fairlead.system.clock import Clock

SHIM_RECONNECT_S: Final = 60.0
"""How long a session waits for a shim whose socket has dropped. A shim that comes later connects anew."""


def shim_version(process: LentProcess) -> Version:
    """The version of the lent CLI. Raises BadRequest."""
    version = parse_version(process.version)
    if version is None or not is_uuid(process.agent_session):
        raise BadRequest("A shim sends the version of its CLI and the UUID of the conversation.")
    return version


async def drive_lent(
    prepared: PreparedLaunch,
    process: LentProcess,
    link: DialInLink,
    sink: AgentSink,
    clock: Clock,
    *,
    observes: bool,
) -> ShimAgent:
    await sink.started(
        ProcessInfo(
            session=prepared.launch.session,
            pid=process.pid,
            started=process.started,
            group=0,
            agent="claude",
            agent_session=process.agent_session,
            cwd=prepared.cwd,
            transcript=str(prepared.transcript),
            at=clock.now_ms(),
            lent=True,
        )
    )
    agent = ShimAgent(
        ShimLink(link, process),
        sink,
        clock,
        prepared.version,
        by=process.by,
        observes=observes,
        spill=prepared.spill,
        transcript=prepared.transcript,
    )
    await agent.start(prepared.launch)
    return agent
