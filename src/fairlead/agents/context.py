"""What the gateway passes to every agent package when it starts.

A package declares its kinds by a function `create_kinds(context)`: our own folders in their module `kind`, other
packages by an entry point of the group `fairlead.agents`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from fairlead.agents.links import DialInTokens
from fairlead.keeper.access import KeeperAccess
from fairlead.model.agents import AgentKind
from fairlead.model.transcripts import Transcripts
from fairlead.model.web.requests import ServiceHandlers
from fairlead.sessions.api.folders import FolderReport
from fairlead.system.clock import Clock
from fairlead.system.sandbox import Sandbox
from fairlead.terminals.api import Terminals


class PrivateFiles(msgspec.Struct, frozen=True):
    """An agent's own folders on this machine, and the beginnings of the names of its settings files. Clients do not
    browse them: conversations are read through their sessions, which have owners."""

    folders: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()


class WiredKind(AgentKind, Protocol):
    """An agent kind with what the gateway needs from its package besides running it."""

    def handlers(self) -> ServiceHandlers:
        """The handlers of the service calls that its routes make."""

    def transcripts(self) -> Transcripts | None:
        """The sessions that it stores itself, also those that it ran without the gateway, if it stores any."""

    def describe_folder(self, folder: str) -> FolderReport | None:
        """What it would load and run in a folder, for the person who is to trust it."""

    def private_files(self) -> PrivateFiles: ...


class AgentCommand(msgspec.Struct, frozen=True):
    """An agent of the settings: the command that starts it, and the variables of the gateway that it gets."""

    command: tuple[str, ...]
    env: tuple[str, ...] = ()


class ShimSettings(msgspec.Struct, frozen=True):
    """How the gateway treats a process that a shim lends it. `observe`: the policy only denies, and the shim's caller
    decides the rest; `approvals`: people answer permission requests even if the caller cannot."""

    observe: bool = True
    approvals: bool = False


class AgentContext(msgspec.Struct, frozen=True, kw_only=True):
    """`host` is the gateway's own environment; an agent gets the variables that every program needs and those in
    `pass_env`. `data` is the gateway's folder. `sandbox`: with None, agents see everything that their user can see."""

    host: Mapping[str, str]
    clock: Clock
    data: str
    pass_env: tuple[str, ...] = ()
    sandbox: Sandbox | None = None
    programs: Mapping[str, str] = {}
    """The program of a kind, where the settings name one."""
    homes: Mapping[str, str] = {}
    """The home folder of a kind, where the settings name one."""
    transcript_homes: Mapping[str, tuple[str, ...]] = {}
    """The folders with a kind's transcripts, where the settings name some."""
    commands: Mapping[str, AgentCommand] = {}
    """The agents that the settings add."""
    url: str = ""
    """The address of the gateway, for agents that dial in."""
    certificate: str = ""
    tokens: DialInTokens | None = None
    shim: ShimSettings = ShimSettings()
    terminals: Terminals | None = None
    keeper: KeeperAccess | None = None
    """Holds the agents' processes, so that they survive a restart of the gateway."""

    @property
    def spill(self) -> str:
        """The folder for messages that are too large to store."""
        return f"{self.data}/oversize"


CreateKinds = Callable[[AgentContext], Sequence[WiredKind]]
