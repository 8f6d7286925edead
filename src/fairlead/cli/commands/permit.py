"""`fairlead permit`: answer the pending requests of a session."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from fairlead.cli.context import CommandContext, command
from fairlead.cli.errors import Interrupted
from fairlead.cli.options import SessionArg
from fairlead.cli.output import hint, json_line
from fairlead.client.errors import CommandFailed, Missing, UsageError

if TYPE_CHECKING:
    from fairlead.cli.approval_prompt import Asked
    from fairlead.cli.client import Api
    from fairlead.clients.native.schemas import AnswerBody
    from fairlead.model.queries import SessionView


@command(
    "fairlead permit 3f2a",
    "fairlead permit 3f2a --allow",
    'fairlead permit 3f2a --allow --remember "Bash(git status:*)"',
    'fairlead permit 3f2a --deny --message "use the other branch"',
    'fairlead permit 3f2a --answer "Colour=Blue"',
    color=True,
    session=True,
)
async def permit(
    context: CommandContext,
    session: SessionArg,
    allow: Annotated[bool, typer.Option("--allow", help="Allow the request.")] = False,
    deny: Annotated[bool, typer.Option("--deny", help="Deny the request.")] = False,
    request: Annotated[
        str | None, typer.Option(metavar="REQUEST", help="Id of the request, if several are pending.")
    ] = None,
    remember: Annotated[
        list[str] | None, typer.Option(metavar="RULE", help="With --allow: allow this from now on in this session.")
    ] = None,
    message: Annotated[str, typer.Option(metavar="TEXT", help="With --deny: a message to the agent.")] = "",
    answer: Annotated[
        list[str] | None, typer.Option(metavar="QUESTION=ANSWER", help="Answer to a question; by its number or header.")
    ] = None,
) -> None:
    """Answer a permission request, a question or a plan. Without options, show the pending requests and ask you.

    The first answer counts, whichever client gave it."""
    from fairlead.cli.render import request_rows
    from fairlead.cli.rules import always
    from fairlead.clients.native.schemas import AnswerBody

    if allow and deny:
        raise UsageError("Use --allow or --deny, not both.")
    if remember and not allow:
        raise UsageError("--remember needs --allow.")
    async with context.api() as api:
        view = await api.session(await api.find_session(session)).view()
        waiting = _waiting(view, request)
        if allow or deny or answer:
            if len(waiting) > 1:
                named = ", ".join(event.request for event in waiting)
                raise UsageError(f"{len(waiting)} requests are pending: choose one with --request ({named}).")
            if deny:
                body = AnswerBody(behavior="deny", message=message)
            else:
                body = _approval(waiting[0], message, tuple(remember or ()), answer or [])
            reply = await _answer(api, waiting[0], body)
            if context.json:
                json_line(reply)
            return
        if context.json:
            for event in waiting:
                json_line(event)
            return
        if not sys.stdin.isatty():
            count = f"{len(waiting)} request{'s are' if len(waiting) > 1 else ' is'} pending"
            raise UsageError(f"{count}, and this command has no terminal to ask on: use --allow, --deny or --answer.")
        printer = context.printer()
        for event in waiting:
            printer.show(request_rows(event))
            await _answer(api, event, _ask(event, always(event, view.summary.cwd)))


def _waiting(view: "SessionView", request: str | None) -> "list[Asked]":
    from fairlead.model import events as ev

    session = view.summary.session
    events = [ev.decode(bytes(pending.event)) for pending in view.pending]
    asked = [e for e in events if isinstance(e, ev.PermissionRequested | ev.QuestionAsked | ev.PlanProposed)]
    if request is not None:
        asked = [event for event in asked if event.request == request]
    if not asked:
        which = f"No pending request has the id {request}" if request else "No request is pending"
        raise Missing(f"{which} in {session}. Show the session with: fairlead attach {session}")
    return asked


def _approval(event: "Asked", message: str, remember: tuple[str, ...], answers: list[str]) -> "AnswerBody":
    from fairlead.cli.approval_prompt import answers_from
    from fairlead.clients.native.schemas import AnswerBody
    from fairlead.model import events as ev

    if not isinstance(event, ev.QuestionAsked):
        if answers:
            raise UsageError("--answer is for questions; this request needs --allow or --deny.")
        return AnswerBody(behavior="allow", message=message, remember=remember)
    if not answers:
        raise UsageError('This is a question: answer it with --answer "QUESTION=ANSWER", or decline with --deny.')
    try:
        return AnswerBody(behavior="allow", answers=answers_from(event, answers))
    except ValueError as error:
        raise UsageError(str(error)) from None


async def _answer(api: "Api", event: "Asked", body: "AnswerBody") -> object:
    reply = await api.answer(event.request, body)
    hint("Allowed." if body.behavior == "allow" else "Denied.")
    return reply


def _ask(event: "Asked", rules: tuple[str, ...]) -> "AnswerBody":
    """Ask line by line on the terminal."""
    from fairlead.cli.approval_prompt import Dialog, Edit
    from fairlead.cli.editor import edit_json

    dialog = Dialog(event, rules)
    while True:
        try:
            line = input(dialog.prompt)
        except EOFError:
            raise CommandFailed("No answer was given; the request stays open.") from None
        except KeyboardInterrupt:
            raise Interrupted("No answer was given; the request stays open.") from None
        answer = dialog.typed(line)
        if isinstance(answer, Edit):
            answer = dialog.edited(edit_json(answer.input))
        if answer is not None:
            return answer
        if dialog.problem:
            hint(dialog.problem)
