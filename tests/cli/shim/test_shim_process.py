"""The shim as a process, on a small program in the place of Claude Code: what happens without a gateway, pass-through,
exit codes, signals, large lines."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from cli.conftest import Fairlead
from fairlead.cli.errors import ExitCode
from patience import PATIENCE

pytestmark = pytest.mark.process

BOTH = ("--output-format", "stream-json", "--verbose", "--input-format", "stream-json")
SILENT = """
import socket
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
input()
"""
SHIM = (sys.executable, "-P", "-m", "fairlead.cli.shim")


@pytest.fixture
def cli(tmp_path: Path) -> Path:
    """A program that reports its arguments and environment, and does what its first argument says."""
    program = tmp_path / "claude"
    program.write_text(
        textwrap.dedent(
            f"""\
            #!{sys.executable}
            import json, os, signal, sys
            if "--version" in sys.argv:
                print("2.1.325 (Claude Code)")
                sys.exit(0)
            print(json.dumps({{"argv": sys.argv[1:], "env": sorted(os.environ)}}), flush=True)
            for line in sys.stdin:
                if "exit 3" in line:
                    sys.exit(3)
                if "killed" in line:
                    os.kill(os.getpid(), signal.SIGKILL)
                print(json.dumps({{"read": len(line)}}), flush=True)
            print("no more", file=sys.stderr)
            """
        )
    )
    program.chmod(0o755)
    return program


def environment(tmp_path: Path, cli: Path, **more: str) -> dict[str, str]:
    return {
        "HOME": str(tmp_path),
        "PATH": f"{cli.parent}:/usr/bin:/bin",
        "FAIRLEAD_DATA": str(tmp_path / "data"),
        "FAIRLEAD_SHIM_WAIT_MS": "60000",
        **more,
    }


def run(arguments: list[str], env: dict[str, str], given: str = "") -> "subprocess.CompletedProcess[str]":
    argv = [*SHIM, *arguments]
    return subprocess.run(argv, env=env, input=given, capture_output=True, text=True, check=False, timeout=PATIENCE)


def test_everything_else_is_the_real_program(tmp_path: Path, cli: Path) -> None:
    ran = run(["claude", "doctor", "--verbose"], environment(tmp_path, cli))
    assert '"argv": ["doctor", "--verbose"]' in ran.stdout
    assert "FAIRLEAD" not in ran.stdout, "our variables are not for the CLI"
    assert (ran.returncode, ran.stderr) == (0, "no more\n")
    assert run(["claude", "--version"], environment(tmp_path, cli)).stdout == "2.1.325 (Claude Code)\n"


def test_without_a_gateway_the_program_runs_alone_and_one_line_says_so(tmp_path: Path, cli: Path) -> None:
    ran = run(["claude", *BOTH], environment(tmp_path, cli), "exit 3\n")
    assert ran.returncode == 3
    assert f'"argv": {list(BOTH)}'.replace("'", '"') in ran.stdout
    (line,) = ran.stderr.splitlines()
    assert line.startswith("fairlead: Claude Code runs without the gateway: No gateway runs on")


def test_a_gateway_can_be_required(tmp_path: Path, cli: Path) -> None:
    ran = run(["claude", *BOTH], environment(tmp_path, cli, FAIRLEAD_SHIM="require"), "hello\n")
    assert (ran.returncode, ran.stdout) == (1, "")
    (line,) = ran.stderr.splitlines()
    assert "FAIRLEAD_SHIM=require" in line


def test_a_gateway_that_does_not_answer_is_no_gateway(tmp_path: Path, cli: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SILENT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as silent:
        assert silent.stdout is not None
        url = f"http://127.0.0.1:{silent.stdout.readline().strip()}"
        env = environment(tmp_path, cli, FAIRLEAD_URL=url, FAIRLEAD_TOKEN="t", FAIRLEAD_SHIM_WAIT_MS="50")
        ran = run(["claude", *BOTH], env, "hello\n")
        silent.kill()
    assert ran.returncode == 0 and '"read": 6' in ran.stdout
    assert "No gateway answers" in ran.stderr.splitlines()[0]


def test_the_wrapper_gets_the_command(tmp_path: Path, cli: Path) -> None:
    ran = run(["wrap", str(cli), "-p", "hello"], environment(tmp_path, cli))
    assert '"argv": ["-p", "hello"]' in ran.stdout
    ran = run(["wrap", sys.executable, str(cli), "-p", "hello"], environment(tmp_path, cli))
    assert '"argv": ["-p", "hello"]' in ran.stdout


def test_the_shim_in_path_does_not_call_itself(tmp_path: Path, cli: Path, fairlead: Fairlead) -> None:
    folder = tmp_path / "shims"
    installed = fairlead("shim", "install", "--path", str(folder))
    assert installed.code == 0
    assert f'ClaudeAgentOptions(cli_path="{folder}/claude")' in installed.out
    assert f'"claudeCode.claudeProcessWrapper": "{folder}/claude-wrapper"' in installed.out
    assert fairlead("shim", "install", "--path", str(folder)).code == 0, "again is no problem"
    env = environment(tmp_path, cli)
    argv = [str(folder / "claude"), "-p", "hello"]
    env["PATH"] = f"{folder}:{env['PATH']}"
    ran = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, input="", timeout=PATIENCE)
    assert '"argv": ["-p", "hello"]' in ran.stdout, ran.stderr


def test_the_installer_does_not_replace_another_program(tmp_path: Path, cli: Path, fairlead: Fairlead) -> None:
    refused = fairlead("shim", "install", "--path", str(cli.parent))
    assert refused.code == ExitCode.USAGE and "is not the shim" in refused.err
    assert "Claude Code" in cli.read_text()


def test_only_the_setting_of_vscode(tmp_path: Path, fairlead: Fairlead) -> None:
    (line,) = fairlead("shim", "install", "--path", str(tmp_path / "shims"), "--vscode").out.splitlines()
    assert "claudeCode.claudeProcessWrapper" in line
