"""The services of this room."""

from typing import Final

from fairlead.system.services import Service, ServiceContext, ServiceFactory
from fairlead.terminals.attachment import TerminalActions
from fairlead.terminals.launcher.service import ProgramLauncher
from fairlead.terminals.registry import TerminalRegistry
from fairlead.terminals.shells import ShellSettings, UserShells


def attachments(context: ServiceContext) -> Service:
    return Service(handlers=TerminalActions(context.get(TerminalRegistry)).handlers())


def shells(context: ServiceContext) -> Service:
    settings, terminals = context.get(ShellSettings), context.get(TerminalRegistry)
    made = context.add(UserShells(terminals, context.clock, settings, context.resolve_folder))
    return Service(handlers=made.handlers(), start=made.begin, stop=made.close, forget_user=made.forget)


def launcher(context: ServiceContext) -> Service:
    made = ProgramLauncher(
        context.get(TerminalRegistry),
        context.get(UserShells),
        context.gateway,
        context.store.here,
        context.clock,
        context.resolve_folder,
    )
    return Service(handlers=made.handlers(), start=made.start, stop=made.close)


SERVICES: Final[tuple[ServiceFactory, ...]] = (attachments, shells, launcher)
