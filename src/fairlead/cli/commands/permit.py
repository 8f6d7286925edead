"""`fairlead permit`: answer the pending requests of a session."""

import sys
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from fairlead.cli.endpoint import EndpointOptions
from fairlead.cli.errors import CommandFailed, Interrupted, Missing, UsageError
from fairlead.cli.options import Data, Json, NoColor, SessionArg, Token, Url, examples, run_async

if TYPE_CHECKING:
    from fairlead.cli.approval_prompt import Asked
    from fairlead.cli.client import Api
    from fairlead.clients.native.schemas import AnswerBody
    from fairlead.model.queries import SessionView


def register(app: typer.Typer) -> None:
    app.command(
        epilog=examples(
            "fairlead permit 3f2a",
            "fairlead permit 3f2a --allow",
            'fairlead permit 3f2a --allow --remember "Bash(git status:*)"',
            'fairlead permit 3f2a --deny --message "use the other branch"',
            'fairlead permit 3f2a --answer "Colour=Blue"',
        )
    )(permit)


class PermissionChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The answer from the command line."""

    allow: bool
    deny: bool
    request: str | None
    remember: tuple[str, ...]
    message: str
    answers: tuple[str, ...]

    @property
    def given(self) -> bool:
        return self.allow or self.deny or bool(self.answers)


def permit(
    session: SessionArg,
    allow: Annotated[bool, typer.Option("--allow", help="Say yes.")] = False,
    deny: Annotated[bool, typer.Option("--deny", help="Say no.")] = False,
    request: Annotated[str | None, typer.Option(metavar="REQUEST", help="Which one, where several wait.")] = None,
    remember: Annotated[
        list[str] | None, typer.Option(metavar="RULE", help="With --allow: allow this from now on in this session.")
    ] = None,
    message: Annotated[str, typer.Option(metavar="TEXT", help="With --deny: what the agent is told.")] = "",
    answer: Annotated[
        list[str] | None, typer.Option(metavar="QUESTION=ANSWER", help="Answer to a question; by its number or header.")
    ] = None,
    json: Json = False,
    no_color: NoColor = False,
    url: Url = None,
    token: Token = None,
    data: Data = None,
) -> None:
    """Answer a permission, a question or a plan. Without options it shows what waits and asks you.

    The first answer counts, whichever client gave it.
    """
    given = PermissionChoice(
        allow=allow,
        deny=deny,
        request=request,
        remember=tuple(remember or ()),
        message=message,
        answers=tuple(answer or ()),
    )
    if allow and deny:
        raise UsageError("--allow or --deny, not both.")
    if given.remember and not allow:
        raise UsageError("--remember goes with --allow.")
    run_async(_permit(EndpointOptions(url, token, data), session, given, json=json, no_color=no_color))


async def _permit(wanted: EndpointOptions, name: str, given: PermissionChoice, *, json: bool, no_color: bool) -> None:
    from fairlead.cli.client import Api
    from fairlead.cli.output import Printer, console, json_line, raw_line
    from fairlead.cli.render import request_rows
    from fairlead.cli.rules import always

    async with Api(wanted.find) as api:
        session = await api.session(name)
        view = await api.view(session)
        waiting = _waiting(view, given.request)
        if given.given:
            if len(waiting) > 1:
                named = ", ".join(event.request for event in waiting)
                raise UsageError(f"{len(waiting)} requests wait: choose one with --request ({named}).")
            reply = await _answer(api, waiting[0], _body(waiting[0], given))
            if json:
                json_line(reply)
            return
        if json:
            for event in waiting:
                raw_line(msgspec.json.encode(event))
            return
        if not sys.stdin.isatty():
            raise UsageError(
                f"{len(waiting)} waits and there is no terminal to ask on: say --allow, --deny or --answer."
            )
        printer = Printer(console(no_color=no_color))
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
        which = f" under {request}" if request else ""
        raise Missing(f"Nothing waits for an answer in {session}{which}. Look at it with: fairlead attach {session}")
    return asked


def _body(event: "Asked", given: PermissionChoice) -> "AnswerBody":
    from fairlead.cli.approval_prompt import answers_from
    from fairlead.clients.native.schemas import AnswerBody
    from fairlead.model import events as ev

    if given.deny:
        return AnswerBody(behavior="deny", message=given.message)
    if not isinstance(event, ev.QuestionAsked):
        if given.answers:
            raise UsageError("--answer is for questions; this asks for --allow or --deny.")
        return AnswerBody(behavior="allow", message=given.message, remember=given.remember)
    if not given.answers:
        raise UsageError('This is a question: answer it with --answer "QUESTION=ANSWER", or decline with --deny.')
    try:
        return AnswerBody(behavior="allow", answers=answers_from(event, list(given.answers)))
    except ValueError as error:
        raise UsageError(str(error)) from None


async def _answer(api: "Api", event: "Asked", body: "AnswerBody") -> object:
    from fairlead.cli.client import segment
    from fairlead.cli.output import hint
    from fairlead.model.commands import Reply

    reply = await api.post(f"/v1/permissions/{segment(event.request)}", Reply, body)
    hint("Allowed." if body.behavior == "allow" else "Denied.")
    return reply


def _ask(event: "Asked", rules: tuple[str, ...]) -> "AnswerBody":
    """Ask line by line on the terminal."""
    from fairlead.cli.approval_prompt import Dialog, Edit
    from fairlead.cli.editor import edit
    from fairlead.cli.output import hint

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
            text = msgspec.json.format(msgspec.json.encode(answer.input), indent=2).decode()
            answer = dialog.edited(edit(text, ".json"))
        if answer is not None:
            return answer
        if dialog.problem:
            hint(dialog.problem)
