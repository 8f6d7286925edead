"""Registration of commands, and the object through which a command reaches the gateway and prints its result."""

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import typer

from fairlead.cli.errors import Interrupted
from fairlead.cli.options import Data, Json, NoColor, Token, Url
from fairlead.cli.output import console, hint, json_line, print_text, table
from fairlead.client.endpoint import EndpointOptions

if TYPE_CHECKING:
    from fairlead.cli.client import Api
    from fairlead.cli.printer import Printer

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

_SHARED = {
    name: inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
    for name, default, kind in (
        ("json", False, Json),
        ("no_color", False, NoColor),
        ("url", None, Url),
        ("token", None, Token),
        ("data", None, Data),
    )
}


class CommandContext(msgspec.Struct, frozen=True):
    """The values of the options that commands share."""

    endpoint: EndpointOptions
    json: bool = False
    no_color: bool = False

    def api(self) -> "Api":
        from fairlead.cli.client import Api

        return Api(self.endpoint.find)

    def call(self, method: str, path: str, kind: type[T], *, body: Any = None) -> T:
        """Make one request to the gateway, for a command that is not a coroutine."""

        async def call() -> T:
            async with self.api() as api:
                return await api.call(method, path, kind, body=body)

        return run_async(call())

    def printer(self) -> "Printer":
        from fairlead.cli.printer import Printer

        return Printer(console(no_color=self.no_color))

    def print_result(self, value: Any, text: str, *, result: str = "") -> None:
        """Print the value with --json, else the result (a link or a token) on stdout and the text as a message."""
        if result and not self.json:
            print_text(result)
        json_line(value) if self.json else hint(text)

    def print_table(self, head: Sequence[str], items: Iterable[T], row: Callable[[T], Sequence[str]]) -> None:
        """Print one JSON line per item with --json, else one row per item."""
        if not self.json:
            table(head, [row(item) for item in items], no_color=self.no_color)
            return
        for item in items:
            json_line(item)


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run a command's coroutine; Ctrl-C ends it as an interruption."""
    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        raise Interrupted("Interrupted.") from None


def examples(*lines: str) -> str:
    """Return a command's epilog with examples. Its first character keeps Typer from joining the lines."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


app = typer.Typer(
    name="fairlead",
    help="One gateway for coding-agent sessions: run them, keep every event, watch and steer from any client.",
    epilog=examples(
        "fairlead serve",
        'fairlead run "explain this repository"',
        "fairlead ls",
        "fairlead COMMAND --help shows the options of one command, with examples.",
    ),
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


sessions = typer.Typer(
    name="session", help="The commands on sessions; the word session may be left out.", no_args_is_help=True
)


def command(
    *lines: str,
    name: str | None = None,
    group: typer.Typer = app,
    aliases: Sequence[str] = (),
    session: bool = False,
    **shared: bool,
) -> Callable[[F], F]:
    """Register a function as a command, with the lines of its examples and the options of `with_context`.

    `aliases`: further names, which the help does not list. `session`: also a verb of `fairlead session`."""

    def register(function: F) -> F:
        made = with_context(function, **shared)
        group.command(name, epilog=examples(*lines))(made)
        for alias in aliases:
            group.command(alias, epilog=examples(*lines), hidden=True)(made)
        if session:
            sessions.command(name, epilog=examples(*lines))(made)
        return function

    return register


def with_context(
    function: Callable[..., Any], *, json: bool = True, color: bool = False, gateway: bool = True
) -> Callable[..., None]:
    """Return the function in Typer's form: without its first parameter, a `CommandContext`, and with the shared options
    instead. `json` and `color`: it has --json and --no-color. Without `gateway` it uses only the data folder.

    A coroutine function runs to its end. A command that waits for a person's input before it calls the gateway must not
    be one: there, Ctrl-C cancels a task and does not interrupt a read."""
    has = {"json": json, "no_color": color, "url": gateway, "token": gateway, "data": True}
    names = [name for name in _SHARED if has[name]]
    signature = inspect.signature(function)
    parameters = [*list(signature.parameters.values())[1:], *(_SHARED[name] for name in names)]

    @functools.wraps(function)
    def run(**given: Any) -> None:
        values = {name: given.pop(name) for name in names}
        endpoint = EndpointOptions(values.pop("url", None), values.pop("token", None), values.pop("data"))
        result = function(CommandContext(endpoint, **values), **given)
        if inspect.iscoroutine(result):
            run_async(result)

    # Typer reads the options from the signature.
    run.__dict__["__signature__"] = signature.replace(parameters=parameters)
    return run
