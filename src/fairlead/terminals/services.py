"""The services of this room."""

from collections.abc import Mapping
from typing import Final

import msgspec

from fairlead.system.services import Service, ServiceContext, ServiceFactory
from fairlead.terminals.attachment import TerminalActions
from fairlead.terminals.launcher.programs import Provider
from fairlead.terminals.launcher.service import ProgramLauncher
from fairlead.terminals.registry import TerminalRegistry
from fairlead.terminals.shells import ShellSettings, UserShells


class LauncherSettings(msgspec.Struct, frozen=True):
    """`providers`: the programs that a client may start on a terminal, by name."""

    providers: Mapping[str, Provider]


def attachments(context: ServiceContext) -> Service:
    return Service(handlers=TerminalActions(context.get(TerminalRegistry)).handlers())


def shells(context: ServiceContext) -> Service:
    settings, terminals = context.get(ShellSettings), context.get(TerminalRegistry)
    made = context.add(UserShells(terminals, context.clock, settings, context.resolve_folder))
    return Service(handlers=made.handlers(), stop=made.close, forget_user=made.forget)


def launcher(context: ServiceContext) -> Service:
    made = ProgramLauncher(
        context.get(TerminalRegistry),
        context.get(UserShells),
        context.get(LauncherSettings).providers,
        context.gateway,
        context.store.documents,
        context.clock,
        context.resolve_folder,
    )
    return Service(handlers=made.handlers(), start=made.start, stop=made.close)


SERVICES: Final[tuple[ServiceFactory, ...]] = (attachments, shells, launcher)
