"""Runs `git` in an untrusted repository without letting it start other programs.

A repository's own configuration can name programs (monitors, filters, diff drivers, hooks, transports, signature
checks). The settings here override it: filters are emptied by name, the others are switched off; nothing is fetched,
no hook runs, submodules are skipped because their configuration would apply. The environment is built from scratch;
output and time are bounded. `GIT_DIR` and `GIT_WORK_TREE` are set, so that a configuration cannot choose another tree.

`run_readonly` empties the filters by name, after it has listed them: an agent that adds one in between is faster than
that. `run` is for callers that need more: their `GIT_DIR` has a configuration of the gateway's own, or their command
reads no file of the working tree.
"""

import asyncio
import contextlib
import shutil
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from fairlead.system.sandbox import Sandbox

SECONDS: Final = 20.0
MOST: Final = 4 << 20
"""Limit of the output in bytes."""
_ERROR: Final = 2000
PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_FILTERS: Final = (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))
_SWITCHED_OFF: Final = (
    *((f"core.{key}", "false") for key in ("fsmonitor", "sshCommand", "editor", "askPass", "quotePath")),
    *((f"core.{key}", "/dev/null") for key in ("hooksPath", "attributesFile")),
    ("core.pager", "cat"),
    *(
        (key, "false")
        for key in ("gpg.program", "gpg.ssh.program", "gpg.x509.program", "log.showSignature", "color.ui")
    ),
    *((key, "") for key in ("credential.helper", "diff.external")),
    ("protocol.allow", "never"),
)
_ENV: Final = {
    "PATH": PATH,
    "HOME": "/nonexistent",
    "LC_ALL": "C.UTF-8",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_PAGER": "cat",
}


class GitOutput(msgspec.Struct, frozen=True):
    """`code` is -1 for a command that was killed because it took too long. `error`: the end of its standard error."""

    code: int
    data: bytes
    cut: bool = False
    error: str = ""


def installed() -> bool:
    return shutil.which("git", path=PATH) is not None


async def run_readonly(git_dir: str, top: str, arguments: Sequence[str]) -> GitOutput:
    """Run one read-only command; a command that does not end in time is killed, and its code is -1."""
    env = {**_ENV, "GIT_DIR": git_dir, "GIT_WORK_TREE": top}
    names = await _run(top, ("config", "--list", "--name-only", "-z"), _configured(env, ()))
    if names.code != 0 or names.cut:
        return GitOutput(-1, b"")
    filters = {
        name.rpartition(".")[0]
        for name in names.data.decode("utf-8", "surrogateescape").split("\0")
        if name.startswith("filter.") and name.count(".") >= 2
    }
    emptied = [(f"{name}.{key}", value) for name in sorted(filters) for key, value in _FILTERS]
    return await _run(top, arguments, _configured(env, emptied))


def _configured(env: Mapping[str, str], more: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Add the settings as environment variables: `-c` does not accept a name with an equals sign."""
    made = dict(env)
    settings = (*_SWITCHED_OFF, *more)
    made["GIT_CONFIG_COUNT"] = str(len(settings))
    for number, (key, value) in enumerate(settings):
        made[f"GIT_CONFIG_KEY_{number}"], made[f"GIT_CONFIG_VALUE_{number}"] = key, value
    return made


async def run(
    arguments: Sequence[str],
    *,
    top: str,
    env: Mapping[str, str],
    stdin: bytes = b"",
    seconds: float = SECONDS,
    most: int = MOST,
    sandbox: Sandbox | None = None,
) -> GitOutput:
    """Run a command in the folder `top` with these variables and nothing of a user's or the machine's settings."""
    made = _configured({**_ENV, **env}, ())
    return await _run(top, arguments, made, stdin=stdin, seconds=seconds, most=most, sandbox=sandbox)


async def _run(
    top: str,
    arguments: Sequence[str],
    env: Mapping[str, str],
    *,
    stdin: bytes = b"",
    seconds: float = SECONDS,
    most: int = MOST,
    sandbox: Sandbox | None = None,
) -> GitOutput:
    argv = ["git", "--no-pager", "--no-optional-locks", *arguments]
    if sandbox is not None:
        # Without the gateway there is no reader: what runs inside ends with it.
        argv = await asyncio.to_thread(sandbox.wrap, argv, top, options=("--die-with-parent",))
    child = await asyncio.create_subprocess_exec(
        *argv,
        cwd=top,
        env=dict(env),
        stdin=asyncio.subprocess.PIPE if stdin else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert child.stdout is not None
    assert child.stderr is not None
    feeding = asyncio.create_task(_feed(child.stdin, stdin))
    errors = asyncio.create_task(_tail(child.stderr))
    data = bytearray()
    try:
        async with asyncio.timeout(seconds):
            while len(data) <= most and (piece := await child.stdout.read(1 << 16)):
                data += piece
            if len(data) <= most:
                code = await child.wait()
                return GitOutput(code, bytes(data), error=await errors)
    except TimeoutError:
        return GitOutput(-1, b"")
    finally:
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()
        for task in (feeding, errors):
            task.cancel()
        await asyncio.wait({feeding, errors})
    return GitOutput(0, bytes(data[:most]), cut=True)


async def _feed(writer: asyncio.StreamWriter | None, data: bytes) -> None:
    if writer is None:
        return
    with contextlib.suppress(ConnectionError):
        writer.write(data)
        await writer.drain()
    writer.close()


async def _tail(reader: asyncio.StreamReader) -> str:
    kept = b""
    while piece := await reader.read(4096):
        kept = (kept + piece)[-_ERROR:]
    return kept.decode(errors="replace").strip()
