"""The wrapper that removes the network: inside there is only loopback, or it prints the reason why it cannot run."""

import json
import subprocess
import sys

import pytest

from tools.rules import ROOT

pytestmark = pytest.mark.process

PROBE = """
import json, os, socket, sys
listener = socket.create_server(("127.0.0.1", 0))
socket.create_connection(listener.getsockname()).close()
print(json.dumps({"uid": os.getuid(), "nets": [name for _, name in socket.if_nameindex()], "args": sys.argv}))
raise SystemExit(7)
"""


def test_only_loopback_exists_inside_and_the_command_is_unchanged() -> None:
    argv = [str(ROOT / "tools" / "innet"), sys.executable, "-c", PROBE, "two words", "$HOME", "--net"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode == 77:
        # A machine without namespaces: the wrapper may only report that, never run the command with a network.
        assert "no network namespace here" in done.stderr
        assert done.stdout == ""
        return
    assert done.returncode == 7, done.stderr
    found = json.loads(done.stdout)
    outside = subprocess.run(["id", "-u"], capture_output=True, text=True, check=True).stdout.strip()
    assert found["nets"] == ["lo"]
    assert found["uid"] == int(outside)
    assert found["args"] == ["-c", "two words", "$HOME", "--net"]
