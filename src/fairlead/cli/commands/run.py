"""`fairlead run`: send one prompt, show its answer live, return an exit code."""

import asyncio
import os
import sys
import uuid
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from fairlead.cli.endpoint import EndpointOptions
from fairlead.cli.errors import Denied, ExitCode, Unreachable, UsageError
from fairlead.cli.options import Data, Json, NoColor, Token, Url, absolute, examples, run_async

if TYPE_CHECKING:
    from fairlead.cli.client import Api
    from fairlead.model import events as ev
    from fairlead.model.ids import MessageId
    from fairlead.model.queries import SessionView


def register(app: typer.Typer) -> None:
    app.command(
        epilog=examples(
            'fairlead run "explain this repository"',
            'fairlead run "fix the failing test" --cwd ~/code/app --mode acceptEdits',
            'fairlead run "and now the docs" --session 3f2a',
            'fairlead run "run the tests" --yes-to "Bash(pytest:*)" --json',
            "git diff | fairlead run -",
        )
    )(run)


class RunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of the command line."""

    text: str
    session: str | None = None
    cwd: str | None = None
    title: str = ""
    agent: str = ""
    model: str | None = None
    mode: str | None = None
    yes_to: tuple[str, ...] = ()
    wait: bool = False
    json: bool = False
    no_color: bool = False


def run(
    prompt: Annotated[str, typer.Argument(help="What to ask; - reads it from stdin.")],
    cwd: Annotated[str | None, typer.Option(metavar="DIR", help="Folder to work in (this one).")] = None,
    model: Annotated[str | None, typer.Option(metavar="MODEL", help="Which model the agent uses.")] = None,
    mode: Annotated[
        str | None, typer.Option(metavar="MODE", help="Permission mode: default, plan, acceptEdits, ...")
    ] = None,
    agent: Annotated[str | None, typer.Option(metavar="AGENT", help="Which agent: claude or demo.")] = None,
    session: Annotated[str | None, typer.Option(metavar="ID", help="Go on with this session.")] = None,
    title: Annotated[str | None, typer.Option(metavar="TITLE", help="Title of the new session.")] = None,
    yes_to: Annotated[
        list[str] | None, typer.Option(metavar="RULE", help='Allow what this rule covers, such as "Bash(ls:*)".')
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Without a terminal: wait until somebody answers.")] = False,
    json: Json = False,
    no_color: NoColor = False,
    url: Url = None,
    token: Token = None,
    data: Data = None,
) -> None:
    """Run a prompt in a new session, or go on with one, and show the answer as it comes.

    Ctrl-C interrupts the turn; a second one leaves it running. The exit code is 0 if the turn completed, 1 if it
    failed or waits for an answer that nobody here can give, 130 if you interrupted it.
    """
    if session and (cwd or title or agent):
        raise UsageError("--cwd, --title and --agent are for a new session: leave them out with --session.")
    text = _read_prompt() if prompt == "-" else readable(os.fsencode(prompt))
    if not text.strip():
        raise UsageError('The prompt is empty. Say what to do: fairlead run "explain this repository"')
    job = RunRequest(
        text=text,
        session=session,
        cwd=cwd,
        title=title or "",
        agent=agent or "",
        model=model,
        mode=mode,
        yes_to=tuple(yes_to or ()),
        wait=wait,
        json=json,
        no_color=no_color,
    )
    ended = run_async(_run(EndpointOptions(url, token, data), job))
    if ended.status != "completed":
        raise typer.Exit(ExitCode.INTERRUPTED if ended.status == "cancelled" else ExitCode.FAILED)


def _read_prompt() -> str:
    """Read all of standard input, before the session starts."""
    data = sys.stdin.buffer.read()
    text = readable(data)
    if "\N{REPLACEMENT CHARACTER}" in text and "\N{REPLACEMENT CHARACTER}".encode() not in data:
        from fairlead.cli.output import hint

        hint("The input is not UTF-8: what could not be read was replaced.")
    return text


def readable(data: bytes) -> str:
    """Decode UTF-8; invalid bytes are replaced."""
    return data.decode("utf-8", errors="replace")


async def _run(wanted: EndpointOptions, job: RunRequest) -> "ev.TurnEnded":
    from fairlead.cli.chat_loop import ChatLoop, RunOptions
    from fairlead.cli.client import Api
    from fairlead.cli.output import Printer, console, hint
    from fairlead.cli.render import EventRenderer
    from fairlead.cli.rules import accepting
    from fairlead.model import events as ev
    from fairlead.model.ids import MessageId

    rules = accepting(job.yes_to)
    message = MessageId(str(uuid.uuid4()))
    async with Api(wanted.find) as api:
        view = await _opened(api, job)
        session, cwd = view.summary.session, view.summary.cwd
        manner = RunOptions(
            json=job.json,
            ask=not job.json and sys.stdin.isatty() and sys.stdout.isatty(),
            wait=job.wait,
            accepts=lambda event: rules(event, cwd),
            cwd=cwd,
        )
        renderer = EventRenderer(frozenset({message}), working=view.turn is not None)
        talk = ChatLoop(api, view, Printer(console(no_color=job.no_color)), renderer, manner)
        if not job.json:
            hint(f"session {session} in {cwd} ({view.summary.agent})")
        for waiting in view.pending:
            talk.pending(ev.decode(bytes(waiting.event)))
        await _send(api, session, job.text, message)
        # Scripts get the events of a new session from the first one; a person knows that it was opened.
        return await talk.run(message, 0 if job.json and not job.session else view.head, view.log_id)


async def _opened(api: "Api", job: RunRequest) -> "SessionView":
    """Return the session for the prompt, with the requested settings."""
    from fairlead.model.commands import Reply

    if job.session is None:
        return await _created(api, job)
    session = await api.session(job.session)
    changes = {name: value for name, value in (("mode", job.mode), ("model", job.model)) if value is not None}
    if changes:
        await api.call("PATCH", f"/v1/sessions/{session}/settings", Reply, body=changes)
    return await api.view(session)


async def _created(api: "Api", job: RunRequest) -> "SessionView":
    from fairlead.clients.native.schemas import CreateSession
    from fairlead.model.commands import Reply, Settings

    here = os.getcwd() if api.local else ""
    folder = absolute(job.cwd) if job.cwd and api.local else job.cwd or here
    body = CreateSession(
        session=str(uuid.uuid4()),
        cwd=folder,
        title=job.title,
        agent=job.agent,
        settings=Settings(model=job.model or "", mode=job.mode or "default"),
    )
    try:
        made = await api.post("/v1/sessions", Reply, body)
    except Denied as error:
        if error.code != "outside_roots" or job.cwd:
            raise
        raise Denied(f"{error.message} Or name a folder inside them with --cwd DIR.", error.code) from None
    return await api.view(made.session)


async def _send(api: "Api", session: str, text: str, message: "MessageId") -> None:
    """Send the message. We choose its id, so that a retry after a lost connection does not send it twice."""
    from fairlead.cli.client import ReconnectDelays
    from fairlead.clients.native.schemas import PostMessage
    from fairlead.model.commands import Reply

    body, patience = PostMessage(text=text, id=message), ReconnectDelays()
    for attempt in range(patience.tries + 1):
        try:
            if attempt:
                await api.refresh()
            await api.post(f"/v1/sessions/{session}/messages", Reply, body)
            return
        except Unreachable:
            if attempt == patience.tries:
                raise
            await asyncio.sleep(patience.delay(attempt))
