"""Registration of commands, and the object through which a command reaches the gateway and prints its result."""

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import typer

from fairlead.cli.endpoint import EndpointOptions
from fairlead.cli.errors import Interrupted
from fairlead.cli.options import Data, Json, NoColor, Token, Url

if TYPE_CHECKING:
    from fairlead.cli.client import Api
    from fairlead.cli.output import Printer

T = TypeVar("T")

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
        from fairlead.cli.output import Printer, console

        return Printer(console(no_color=self.no_color))

    def print_result(self, value: Any, text: str) -> None:
        """Print the value with --json, else the text as a message."""
        from fairlead.cli.output import hint, json_line

        json_line(value) if self.json else hint(text)

    def print_table(self, head: Sequence[str], items: Iterable[T], row: Callable[[T], Sequence[str]]) -> None:
        """Print one JSON line per item with --json, else one row per item."""
        from fairlead.cli.output import json_line, table

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
        raise Interrupted() from None


def command(
    app: typer.Typer,
    function: Callable[..., Any],
    *lines: str,
    name: str | None = None,
    json: bool = True,
    color: bool = False,
    gateway: bool = True,
) -> None:
    """Register a command with the lines of its examples. For `json`, `color` and `gateway` see `with_context`."""
    used = with_context(function, json=json, color=color, gateway=gateway)
    app.command(name, epilog=examples(*lines))(used)


def with_context(
    function: Callable[..., Any], *, json: bool = True, color: bool = False, gateway: bool = True
) -> Callable[..., None]:
    """Return the function in Typer's form: without its first parameter, a `CommandContext`, and with the shared options
    instead. `json` and `color`: it has --json and --no-color. Without `gateway` it uses only the data folder.

    A coroutine function runs to its end. A command that waits for a person's input before it calls the gateway must not
    be one: there, Ctrl-C cancels a task and does not interrupt a read.
    """
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


def examples(*lines: str) -> str:
    """Return a command's epilog with examples. Its first character keeps Typer from joining the lines."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])
