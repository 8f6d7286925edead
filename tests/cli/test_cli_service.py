"""`fairlead service`: the units, and the life of an installed service with a stand-in for systemctl."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.cli_processes import Server
from cli.conftest import Fairlead
from fairlead.cli import systemd_units as units
from fairlead.system.proctable import start_mark
from patience import PATIENCE

pytestmark = pytest.mark.linux

STAND_IN = Path(__file__).with_name("stand_in_systemctl.py")


class Systemd:
    """A stand-in for the user's systemd."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "systemd-state"
        self.bin = folder / "bin"
        self.units = folder / "xdg-config" / "systemd" / "user"
        for place in (self.state, self.bin):
            place.mkdir()
        program = self.bin / "systemctl"
        program.write_text(f'#!/bin/sh\nSTAND_IN="{self.state}" exec {sys.executable} {STAND_IN} "$@"\n')
        program.chmod(0o755)

    def calls(self) -> list[str]:
        """The calls since the last time, without those that only look."""
        file = self.state / "calls"
        found = [line for line in file.read_text().splitlines() if not line.startswith("show")]
        file.unlink()
        return found

    def pid(self, unit: str) -> int:
        answer = subprocess.run(
            [str(self.bin / "systemctl"), "--user", "--no-pager", "show", unit],
            capture_output=True,
            text=True,
            check=True,
        )
        return int(dict(line.split("=", 1) for line in answer.stdout.splitlines())["MainPID"])

    def log(self) -> str:
        return "".join(file.read_text() for file in self.state.glob("*.log"))


@pytest.fixture
def systemd(tmp_path: Path, fairlead: Fairlead, monkeypatch: pytest.MonkeyPatch) -> Iterator[Systemd]:
    made = Systemd(tmp_path)
    monkeypatch.setenv("PATH", f"{made.bin}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    yield made
    for unit in (units.GATEWAY, units.KEEPER):
        command = [str(made.bin / "systemctl"), "--user", "--no-pager", "disable", "--now", unit]
        subprocess.run(command, check=True, timeout=PATIENCE)


def install(fairlead: Fairlead, data: Path, *more: str) -> None:
    ran = fairlead("service", "install", "--", "--agent", "demo", "--port", "0", "--data", str(data), *more)
    assert ran.code == 0, ran.err
    assert "The gateway serves at http://127.0.0.1:" in ran.err


def test_a_service_is_installed_restarted_and_removed(systemd: Systemd, fairlead: Fairlead, tmp_path: Path) -> None:
    data = tmp_path / "my $data 100%"
    install(fairlead, data)
    assert systemd.calls() == ["daemon-reload", f"enable {units.GATEWAY}", f"restart {units.GATEWAY}"]
    files = [systemd.units / name for name in (units.GATEWAY, units.KEEPER)]
    assert [file.stat().st_mode & 0o777 for file in files] == [0o600, 0o600]
    gateway, keeper = (systemd.pid(name) for name in (units.GATEWAY, units.KEEPER))
    shown = fairlead("service", "status")
    assert shown.code == 0, shown.err
    rows = [line.split() for line in shown.out.splitlines()]
    assert rows[1:] == [
        [units.GATEWAY, "active", "(running)", str(gateway), "at", "login"],
        [units.KEEPER, "active", "(running)", str(keeper), "with", "the", "gateway"],
    ]
    assert f"The gateway on {data}: running, agents 0, terminals 0, sessions at work 0" in shown.err
    first, second, health = fairlead("service", "status", "--json").lines
    assert (first["pid"], first["enabled"], second["pid"]) == (gateway, True, keeper)
    assert (health["data"], health["gateway"]["state"]) == (str(data), "running")
    # Other options: the gateway is started again, and the keeper goes on.
    install(fairlead, data, "--log-level", "debug")
    assert systemd.pid(units.KEEPER) == keeper
    assert start_mark(gateway) == ""
    assert "--log-level debug" in files[0].read_text()
    systemd.calls()
    removed = fairlead("service", "uninstall")
    assert removed.code == 0, removed.err
    assert systemd.calls() == [f"disable --now {units.GATEWAY} {units.KEEPER}", "daemon-reload"]
    assert not any(file.exists() for file in files)
    assert start_mark(keeper) == ""
    assert (data / "fairlead.db").exists()
    gone = fairlead("service", "status")
    assert (gone.code, "not installed" in gone.out, "fairlead service install" in gone.err) == (1, True, True)
    assert fairlead("service", "uninstall").code == 0


def test_status_reports_a_gateway_that_does_not_answer(systemd: Systemd, fairlead: Fairlead, tmp_path: Path) -> None:
    install(fairlead, tmp_path / "data")
    assert fairlead("stop", "--data", str(tmp_path / "data")).code == 0
    shown = fairlead("service", "status")
    assert shown.code == 1
    assert [line.split()[1] for line in shown.out.splitlines()[1:]] == ["inactive", "active"]
    assert "The gateway does not answer." in shown.err


def test_a_gateway_that_is_no_service_is_not_replaced(systemd: Systemd, fairlead: Fairlead, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    server = Server(tmp_path / "other")
    running = server.start()
    ran = fairlead("service", "install", "--", "--data", str(server.data))
    assert ran.code == 1
    assert f"(process {running.pid})" in ran.err
    assert "fairlead stop" in ran.err
    assert not systemd.units.exists()
    assert fairlead("stop", "--data", str(server.data)).code == 0
    assert running.wait(PATIENCE) == 0
    running.communicate()


def test_a_gateway_that_cannot_start_is_reported(systemd: Systemd, fairlead: Fairlead, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ran = fairlead("service", "install", "--", "--port", port, "--agent", "demo", "--data", str(tmp_path / "data"))
    assert ran.code == 1, ran.err
    assert "journalctl --user --unit fairlead" in ran.err
    assert port in systemd.log()


def test_without_a_keeper_there_is_one_unit(systemd: Systemd, fairlead: Fairlead, tmp_path: Path) -> None:
    install(fairlead, tmp_path / "data")
    install(fairlead, tmp_path / "data", "--no-keeper")
    assert [file.name for file in systemd.units.iterdir()] == [units.GATEWAY]
    assert units.KEEPER not in (systemd.units / units.GATEWAY).read_text()
    assert fairlead("service", "uninstall").code == 0


@pytest.mark.parametrize("words", [("install",), ("status",), ("uninstall",)], ids=" ".join)
def test_without_systemd_one_sentence_explains_what_to_do(
    fairlead: Fairlead, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    ran = fairlead("service", *words)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("fairlead: There is no systemd on this machine: ")
    assert ran.err.count("\n") == 1
    assert "fairlead serve" in ran.err
    program = tmp_path / "systemctl"
    program.write_text('#!/bin/sh\necho "Failed to connect to bus: No medium found" >&2\nexit 1\n')
    program.chmod(0o755)
    ran = fairlead("service", *words)
    assert ran.code == 1
    assert "No systemd answers for this user (Failed to connect to bus: No medium found): " in ran.err
    assert not (tmp_path / "xdg-config" / "systemd").exists()


def test_a_dry_run_prints_the_units_and_changes_nothing(
    fairlead: Fairlead, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/opt/agents/bin")
    monkeypatch.setenv("FAIRLEAD_MAX_AGENTS", "3")
    monkeypatch.setenv("FAIRLEAD_TOKEN", "s3cret")
    monkeypatch.chdir(tmp_path)
    ran = fairlead("service", "install", "--dry-run", "--", "--port", "8000")
    data = tmp_path / "xdg-data" / "fairlead"
    program = f"{sys.executable} -P -m fairlead.cli"
    assert ran.code == 0
    keeper, gateway = ran.out.split(f"# {tmp_path}/xdg-config/systemd/user/")[1:]
    assert keeper.startswith(units.KEEPER) and gateway.startswith(units.GATEWAY)
    for line in (
        "Type=notify",
        f"ExecStart={program} keeper run --data {data}",
        "Restart=on-failure",
        "KillMode=control-group",
        "OOMScoreAdjust=-500",
        "OOMPolicy=continue",
    ):
        assert line in keeper.splitlines()
    for line in (
        f"Wants={units.KEEPER}",
        f"After={units.KEEPER}",
        "Type=exec",
        f"ExecStart={program} serve --port 8000 --data {data}",
        f"WorkingDirectory=-{tmp_path}",
        "Environment=PATH=/opt/agents/bin",
        "Environment=FAIRLEAD_MAX_AGENTS=3",
        "Restart=on-failure",
        "RestartPreventExitStatus=2",
        "KillMode=mixed",
        "WantedBy=default.target",
        f"Data={data}",
    ):
        assert line in gateway.splitlines()
    assert "s3cret" not in ran.out
    assert not (tmp_path / "xdg-config").exists()
    assert not data.exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--prot", "8000"), "No such option"),
        (("--port", "70000"), "port"),
        (("--roots", "/a\n/b"), "line breaks"),
        (("8000",), "unexpected extra argument"),
    ],
)
def test_a_wrong_option_of_serve_exits_2(fairlead: Fairlead, words: tuple[str, ...], says: str) -> None:
    ran = fairlead("service", "install", "--dry-run", "--", *words)
    assert (ran.code, ran.out, says in ran.err) == (2, "", True), ran.err


def test_a_variable_that_a_unit_cannot_hold_exits_2(fairlead: Fairlead, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRLEAD_MCP", '[db]\ncommand = "db-server"')
    ran = fairlead("service", "install", "--dry-run")
    assert (ran.code, "FAIRLEAD_MCP" in ran.err) == (2, True)


def test_words_are_quoted_as_systemd_reads_them() -> None:
    line = units.command_line(["/opt/my $programs/x%", "plain", "", "two words", 'a "quote" \\ 100% $HOME ${X}'])
    assert line == '"/opt/my $programs/x%%" plain "" "two words" "a \\"quote\\" \\\\ 100%% $$HOME $${X}"'


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    """Where systemd-analyze is installed; the other tests compare the text."""
    program = shutil.which("systemd-analyze")
    if program is None:
        return
    environment = {"PATH": "/usr/bin:/opt/with space/100%", "FAIRLEAD_ALLOW": 'Bash(echo "$HOME")'}
    odd = [sys.executable, "-P", "serve", "--roots", "/tmp/a b,/tmp/100%", "--claude", 'x"y\\z$HOME']
    texts = {
        units.KEEPER: units.keeper_unit([sys.executable, "keeper", "run", "--data", "/tmp/a b"]),
        units.GATEWAY: units.gateway_unit(
            odd, data="/tmp/a b", folder=str(tmp_path), environment=environment, keeper=True
        ),
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    ran = subprocess.run(
        [program, "--user", "--man=no", "verify", *(str(tmp_path / name) for name in texts)],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
