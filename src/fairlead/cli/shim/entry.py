"""Entry point of the shim: it becomes the real Claude Code, or runs it as a session of the gateway.

Whatever goes wrong with the gateway, the caller gets its Claude Code, and one line on stderr. FAIRLEAD_SHIM=require
makes it an error.
"""

import asyncio
import os
import signal
import sys
import uuid
from collections.abc import Mapping, Sequence
from typing import Final, NoReturn

from fairlead import config
from fairlead.cli.errors import ExitCode
from fairlead.cli.shim.invocation import Invocation, read_arguments
from fairlead.cli.shim.real_cli import find_real_cli
from fairlead.client.endpoint import EndpointOptions
from fairlead.client.errors import ClientError
from fairlead.model.errors import Busy, FairleadError

_OURS: Final = "FAIRLEAD_"
REQUIRE: Final = ("FAIRLEAD_SHIM", "require")


class NoGateway(Exception):
    """The CLI runs without the gateway; the text says why."""


def run_shim(command: Sequence[str], arguments: Sequence[str]) -> NoReturn:
    """Run the CLI with the caller's arguments. `command` starts it; if empty, it is the installed Claude Code."""
    env = dict(os.environ)
    settings = config.load(env).config
    argv = list(command) or [find_real_cli(settings.claude, env.get("PATH", os.defpath))]
    cli_env = {name: value for name, value in env.items() if not name.startswith(_OURS)}
    invocation = None if sys.stdin.isatty() else read_arguments(arguments, str(uuid.uuid4()))
    if invocation is None:
        os.execvpe(argv[0], [*argv, *arguments], cli_env)
    try:
        status = _run_lent(argv, invocation, env, cli_env, settings.shim_wait_ms / 1000)
    except NoGateway as problem:
        name, value = REQUIRE
        if env.get(name) == value:
            _say(f"{problem} {name}={value} forbids to run Claude Code without the gateway.")
            sys.exit(ExitCode.FAILED)
        _say(f"Claude Code runs without the gateway: {problem}")
        os.execvpe(argv[0], [*argv, *arguments], cli_env)
    _exit_like(status)


def _run_lent(
    argv: Sequence[str], invocation: Invocation, env: Mapping[str, str], cli_env: Mapping[str, str], seconds: float
) -> int:
    """Raises NoGateway; then nothing has been started, and nothing was read."""
    options = EndpointOptions(url=env.get("FAIRLEAD_URL") or None, token=env.get("FAIRLEAD_TOKEN") or None)
    try:
        options.find(env)
    except (ClientError, FairleadError) as error:
        raise NoGateway(_one_line(error.message)) from error
    # Imported late: a call that does not get here starts faster.
    from fairlead.cli.shim.child import fork_cli

    child = fork_cli()
    from fairlead.cli.shim.direct_pipe import DirectPipe
    from fairlead.cli.shim.gateway import ShimGateway
    from fairlead.cli.shim.program import Shim, offer_process
    from fairlead.system.clock import SystemClock

    def find() -> ShimGateway:
        return ShimGateway(options.find(env), seconds)

    async def run() -> int:
        try:
            process, invitation = await offer_process(find(), invocation, argv, cli_env, child)
        except ClientError as error:
            if error.code != Busy.code or not invocation.resumes:
                raise
            # The session is at work here: a second process would damage its transcript.
            _say(f"{error.message} This program takes part in the running session, with the session's own settings.")
            child.abandon()
            await DirectPipe(find(), invocation.session).run()
            return 0
        approvals = invitation is not None and invitation.approvals
        shim = Shim(invocation, process, child, find, SystemClock(), approvals=approvals)
        more = ["--permission-prompt-tool=stdio"] if approvals and not invocation.asks else []
        return await shim.run([*argv, *invocation.command_line(more)], cli_env, invitation)

    try:
        return asyncio.run(run())
    except (ClientError, FairleadError) as error:
        child.abandon()
        raise NoGateway(_one_line(error.message)) from error


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _say(text: str) -> None:
    os.write(2, f"fairlead: {text}\n".encode("utf-8", "replace"))


def _exit_like(status: int) -> NoReturn:
    """Exit as the CLI did: with its code, or by its signal."""
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        # At once: a call to a slow gateway may still be running in a thread.
        os._exit(code)
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
    os._exit(128 - code)
