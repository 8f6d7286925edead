"""The text of the systemd user units of the gateway and of its keeper. Pure.

The keeper has a unit of its own: systemd ends all processes of a unit with it, and agents must outlive the gateway.
"""

from collections.abc import Mapping, Sequence
from typing import Final

GATEWAY: Final = "fairlead.service"
KEEPER: Final = "fairlead-keeper.service"
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+./:,@~")
_DATA: Final = "Data="

_KEEPER: Final = """\
# Written by `fairlead service install`. Changes belong into an override: systemctl --user edit {name}
[Unit]
Description=Fairlead keeper: holds agents and terminals while the gateway restarts

[Service]
# Ready when it listens, so that the gateway finds it and starts no keeper of its own.
Type=notify
ExecStart={command}
Restart=on-failure
# Of the agents and shells too: they belong to this unit.
KillMode=control-group
TimeoutStopSec=20
# If memory runs out, an agent is to end and not the process that holds all of them (where the user manager may lower
# the value), and the end of one agent is not the end of the others.
OOMScoreAdjust=-500
OOMPolicy=continue
"""

_GATEWAY: Final = """\
# Written by `fairlead service install`. Changes belong into an override: systemctl --user edit {name}
[Unit]
Description=Fairlead gateway
{keeper}
[Service]
Type=exec
ExecStart={command}
WorkingDirectory=-{folder}
{environment}
Restart=on-failure
RestartSec=2
# A wrong setting, or a port or data folder that is in use: to start again does not help.
RestartPreventExitStatus=2
# The gateway ends its own processes, or leaves them to the keeper.
KillMode=mixed
TimeoutStopSec=60

[Install]
WantedBy=default.target

# systemd ignores this section; `fairlead service` reads it.
[X-Fairlead]
{data}
"""


def keeper_unit(command: Sequence[str]) -> str:
    return _KEEPER.format(name=KEEPER, command=command_line(command))


def gateway_unit(
    command: Sequence[str], *, data: str, folder: str, environment: Mapping[str, str], keeper: bool
) -> str:
    """`folder`: relative paths in the command are relative to it. `keeper`: the keeper's unit is started before."""
    return _GATEWAY.format(
        name=GATEWAY,
        command=command_line(command),
        keeper=f"Wants={KEEPER}\nAfter={KEEPER}\n" if keeper else "",
        folder=_specifiers(folder),
        environment="\n".join(f"Environment={_quoted(f'{name}={value}')}" for name, value in environment.items()),
        data=f"{_DATA}{data}",
    )


def data_of(unit: str) -> str:
    """Return the data folder in the text of a gateway's unit; empty if it is not one of ours."""
    return next((line.removeprefix(_DATA) for line in unit.splitlines() if line.startswith(_DATA)), "")


def command_line(words: Sequence[str]) -> str:
    """Return a command for ExecStart. The program's own path has no variables; in the other words $$ is a dollar."""
    program, *arguments = words
    return " ".join([_quoted(program), *(_quoted(word.replace("$", "$$")) for word in arguments)])


def _quoted(word: str) -> str:
    if word and _PLAIN.issuperset(word):
        return word
    escaped = _specifiers(word).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _specifiers(text: str) -> str:
    return text.replace("%", "%%")
