"""A stand-in for `systemctl --user`, which runs the units that are in XDG_CONFIG_HOME, and keeps a list of its calls.

It supports what `fairlead service` uses. State and calls are files in the folder STAND_IN. A unit of the type `notify`
is started when it has reported so. Where systemd would end a whole cgroup, this ends the main process.
"""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from fairlead.system.proctable import Process as ProcessId
from fairlead.system.proctable import is_alive, kill, start_mark

STATE = Path(os.environ["STAND_IN"])
UNITS = Path(os.environ["XDG_CONFIG_HOME"]) / "systemd" / "user"
PATIENCE = 60.0


def lines(unit: str, key: str) -> list[str]:
    """The values of a key in the file of a unit."""
    return [line.partition("=")[2] for line in (UNITS / unit).read_text().splitlines() if line.startswith(f"{key}=")]


def words(value: str) -> list[str]:
    return [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(value)]


def process(unit: str) -> ProcessId | None:
    try:
        pid, started = json.loads((STATE / unit).read_text())
    except FileNotFoundError:
        return None
    return ProcessId(pid, started) if is_alive(pid, started) else None


def start(unit: str) -> None:
    if process(unit) is not None:
        return
    for wanted in lines(unit, "Wants"):
        start(wanted)
    env = {"HOME": os.environ["HOME"]} | dict(
        word.split("=", 1) for value in lines(unit, "Environment") for word in words(value)
    )
    folder = "".join(lines(unit, "WorkingDirectory")).removeprefix("-").replace("%%", "%") or "/"
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.settimeout(PATIENCE)
    if lines(unit, "Type") == ["notify"]:
        env["NOTIFY_SOCKET"] = f"@fairlead-stand-in-{os.getpid()}"
        manager.bind(f"\0{env['NOTIFY_SOCKET'][1:]}")
    with (STATE / f"{unit}.log").open("ab") as log:
        child = subprocess.Popen(
            words(lines(unit, "ExecStart")[0]),
            env=env,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    (STATE / unit).write_text(json.dumps([child.pid, start_mark(child.pid)]))
    if "NOTIFY_SOCKET" in env:
        assert manager.recv(100) == b"READY=1"


def stop(unit: str) -> None:
    found = process(unit)
    if found is None:
        return
    kill(found, signal.SIGTERM)
    until = time.monotonic() + PATIENCE
    while is_alive(*found):
        assert time.monotonic() < until, f"{unit} does not end"
        time.sleep(0.02)


def show(unit: str) -> None:
    found = process(unit)
    there = (UNITS / unit).exists()
    print(f"LoadState={'loaded' if there else 'not-found'}")
    print(f"ActiveState={'active' if found else 'inactive'}\nSubState={'running' if found else 'dead'}")
    print(f"UnitFileState={'enabled' if (STATE / f'{unit}.enabled').exists() else 'static'}")
    print(f"MainPID={found.pid if found else 0}")


def main() -> None:
    user, pager, verb, *rest = sys.argv[1:]
    assert (user, pager) == ("--user", "--no-pager")
    with (STATE / "calls").open("a") as calls:
        print(verb, *rest, file=calls)
    units = [word for word in rest if not word.startswith("-")]
    if verb == "show" and not units:
        print("Version=252")
    for unit in units:
        match verb:
            case "show":
                show(unit)
            case "enable":
                (STATE / f"{unit}.enabled").touch()
            case "restart":
                stop(unit)
                start(unit)
            case "disable":
                (STATE / f"{unit}.enabled").unlink(missing_ok=True)
                stop(unit)


main()
