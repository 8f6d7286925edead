"""`fairlead run`: send one prompt, show its answer live, return an exit code."""

import asyncio
import os
import sys
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from fairlead.cli.context import CommandContext, command, run_async
from fairlead.cli.errors import ExitCode
from fairlead.cli.options import SessionOption, absolute
from fairlead.cli.output import hint
from fairlead.client.errors import Denied, Unreachable, UsageError
from fairlead.model.ids import MessageId

if TYPE_CHECKING:
    from fairlead.cli.chat_loop import Accepts
    from fairlead.cli.client import Api
    from fairlead.model import events as ev
    from fairlead.model.commands import Reply
    from fairlead.model.queries import SessionView


@command(
    'fairlead run "explain this repository"',
    'fairlead run "fix the failing test" --cwd ~/code/app --mode acceptEdits',
    'fairlead run "and now the docs" --session 3f2a',
    'fairlead run "run the tests" --yes-to "Bash(pytest:*)" --json',
    'git diff | fairlead run "review this diff" -',
    'fairlead run "fix the failing test" --detach',
    'fairlead run --worktree fix-import "fix the import"',
    color=True,
    session=True,
)
def run(
    context: CommandContext,
    prompt: Annotated[list[str], typer.Argument(help="The prompt; - is the text from stdin.")],
    cwd: Annotated[str | None, typer.Option(metavar="DIR", help="Folder to work in (the current folder).")] = None,
    model: Annotated[str | None, typer.Option(metavar="MODEL", help="The model of the agent.")] = None,
    mode: Annotated[
        str | None, typer.Option(metavar="MODE", help="Permission mode: default, plan, acceptEdits, ...")
    ] = None,
    agent: Annotated[
        str | None, typer.Option(metavar="AGENT", help="The agent: claude, demo or a name in the setting agents.")
    ] = None,
    worktree: Annotated[
        str | None,
        typer.Option(metavar="BRANCH", help="Work in a worktree of this branch; it is made if there is none."),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(metavar="COMMIT", help="Where a new branch of --worktree begins."),
    ] = None,
    session: SessionOption = None,
    title: Annotated[str | None, typer.Option(metavar="TITLE", help="Title of the new session.")] = None,
    yes_to: Annotated[
        list[str] | None, typer.Option(metavar="RULE", help='Allow the calls of this rule, such as "Bash(ls:*)".')
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Without a terminal: wait until a person answers.")] = False,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Send the prompt, print the session's id, and do not wait.")
    ] = False,
    quiet: Annotated[
        bool | None,
        typer.Option(
            "--quiet/--no-quiet",
            "-q",
            help="Print only the agent's last message. Default: if stdout is no terminal.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Start a session with a prompt, or continue a session, and show the answer as it arrives.

    On a terminal, Ctrl-C interrupts the turn (a second one does not wait for its end), and Ctrl-D leaves the turn
    running. The exit code is 0 if the turn completed, 1 if it failed or needs an answer and no person is at the
    terminal, 130 if you interrupted or left it."""
    from fairlead.cli.rules import accepting

    if session and (cwd or title or agent or worktree):
        raise UsageError(
            "--cwd, --title, --agent and --worktree are for a new session: they cannot be used with --session."
        )
    if base and not worktree:
        raise UsageError("--base is for a new branch: name it with --worktree BRANCH.")
    if detach and (wait or yes_to or quiet):
        raise UsageError("--detach does not wait for the turn: it cannot be combined with --wait, --yes-to or --quiet.")
    text = prompt_text(prompt, _read_input)
    if not text.strip():
        raise UsageError('The prompt is empty. Give one: fairlead run "explain this repository"')
    rules = accepting(tuple(yes_to or ()))

    async def opened(api: "Api") -> "SessionView":
        if session is None:
            branch = (worktree, base or "") if worktree else None
            return await _create(api, cwd, branch, title or "", agent or "", model or "", mode or "default")
        return await _continue(api, session, {"mode": mode, "model": model})

    async def leave_it() -> None:
        async with context.api() as api:
            view = await opened(api)
            reply = await _send(api, view.summary.session, text, MessageId(str(uuid.uuid4())))
            follow = f"Follow it with: fairlead attach {reply.session}"
            context.print_result(reply, follow, result=reply.session)

    if detach:
        run_async(leave_it())
        return

    async def converse() -> "ev.TurnEnded":
        async with context.api() as api:
            view = await opened(api)
            # Scripts get the events of a new session from the first one; a person knows that it was opened.
            after = 0 if context.json and session is None else view.head
            silent = (not sys.stdout.isatty() if quiet is None else quiet) and not context.json
            # A person who has asked for the answer alone does not want the other lines either.
            if not context.json and not quiet:
                hint(f"session {view.summary.session} in {view.summary.cwd} ({view.summary.agent})")
            return await _converse(context, api, view, text, rules, wait, after, silent)

    ended = run_async(converse())
    if ended.status != "completed":
        raise typer.Exit(ExitCode.INTERRUPTED if ended.status == "cancelled" else ExitCode.FAILED)


def prompt_text(words: Sequence[str], read: Callable[[], str]) -> str:
    """Return the prompt of these words. The text of stdin, where a word is `-`, is a paragraph of its own."""
    if words.count("-") > 1:
        raise UsageError("stdin can be read only once: use one -.")
    before: list[str] = []
    after: list[str] = []
    given: str | None = None
    for word in words:
        if word == "-":
            given = read()
        else:
            (before if given is None else after).append(os.fsencode(word).decode("utf-8", "replace"))
    parts = [" ".join(before), *([] if given is None else [given]), " ".join(after)]
    return "\n\n".join(part for part in parts if part.strip())


def _read_input() -> str:
    """Read all of standard input, before the session starts."""
    data = sys.stdin.buffer.read()
    text = data.decode("utf-8", "replace")
    if "\N{REPLACEMENT CHARACTER}" in text and "\N{REPLACEMENT CHARACTER}".encode() not in data:
        hint("The input is not UTF-8: the invalid bytes were replaced.")
    return text


async def _converse(
    context: CommandContext,
    api: "Api",
    view: "SessionView",
    text: str,
    rules: "Accepts",
    wait: bool,
    after: int,
    quiet: bool,
) -> "ev.TurnEnded":
    from fairlead.cli.chat_loop import ChatLoop, RunOptions
    from fairlead.cli.render import AnswerRenderer, EventRenderer, outcome_text
    from fairlead.model import events as ev

    message = MessageId(str(uuid.uuid4()))
    session, cwd = view.summary.session, view.summary.cwd
    ask = not context.json and sys.stdin.isatty() and sys.stdout.isatty()
    options = RunOptions(json=context.json, ask=ask, wait=wait, accepts=rules, cwd=cwd)
    answer = AnswerRenderer(message) if quiet else None
    renderer = answer or EventRenderer(frozenset({message}), working=view.turn is not None)
    chat = ChatLoop(api, view, context.printer(), renderer, options)
    for waiting in view.pending:
        chat.show_pending(ev.decode(bytes(waiting.event)))
    await _send(api, session, text, message)
    ended = await chat.run(message, after, view.log_id)
    if answer is not None and ended.status != "completed":
        hint(outcome_text(ended))
    return ended


async def _continue(api: "Api", name: str, settings: dict[str, str | None]) -> "SessionView":
    from fairlead.model.commands import Reply

    session = await api.find_session(name)
    changes = {name: value for name, value in settings.items() if value is not None}
    if changes:
        await api.call("PATCH", f"/v1/sessions/{session}/settings", Reply, body=changes)
    return await api.session(session).view()


async def _create(
    api: "Api", cwd: str | None, branch: tuple[str, str] | None, title: str, agent: str, model: str, mode: str
) -> "SessionView":
    from fairlead.model.commands import Settings, WorktreeChoice

    folder = absolute(cwd or ".") if api.local else cwd or ""
    settings = Settings(model=model, mode=mode)
    try:
        worktree = WorktreeChoice(branch=branch[0], base=branch[1]) if branch else None
        made = await api.start(folder, worktree=worktree, agent=agent, title=title, settings=settings)
    except Denied as error:
        if error.code != "outside_roots" or cwd:
            raise
        raise Denied(f"{error.message} Or name a folder inside them with --cwd DIR.", error.code) from None
    return await made.view()


async def _send(api: "Api", session: str, text: str, message: MessageId) -> "Reply":
    """Send the message. We choose its id, so that a retry after a lost connection does not send it twice."""
    from fairlead.client.watch import DELAYS

    for attempt in range(DELAYS.tries + 1):
        try:
            if attempt:
                await api.refresh()
            return await api.session(session).send(text, message=message)
        except Unreachable:
            if attempt == DELAYS.tries:
                raise
            await asyncio.sleep(DELAYS.delay(attempt))
    raise AssertionError("the last attempt returns or raises")
