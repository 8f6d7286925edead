"""`fairlead audit`: list, verify, export; and the program of the page checks the export too."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from cli.conftest import CliGateway, Fairlead
from fairlead.audit.files import FOLDER, audit_files

pytestmark = pytest.mark.process

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "audit.md").read_text()


def test_the_log_is_listed_verified_and_exported(gateway: CliGateway, fairlead: Fairlead, tmp_path: Path) -> None:
    here = ("--data", str(gateway.data))
    assert fairlead("user", "add", "audited", *here).code == 0
    listed = fairlead("audit", "ls", "--action", "user.", *here)
    assert listed.code == 0 and re.search(r"owner +\w+ +user\.create +name=audited", listed.out), listed.out
    entries = fairlead("audit", "ls", "--action", "user.", "--user", "owner", "--json", *here).lines
    assert (entries[0]["action"], entries[0]["data"]) == ("user.create", {"name": "audited"})
    whole = fairlead("audit", "verify", "--json", *here)
    assert whole.code == 0 and whole.lines[0]["ok"], whole.out
    head = f"{whole.lines[0]['head']['n']}:{whole.lines[0]['head']['hash']}"
    assert fairlead("audit", "verify", *here).out.strip() == head
    assert fairlead("audit", "verify", "--head", head, *here).code == 0
    wrong = fairlead("audit", "verify", "--head", f"{whole.lines[0]['head']['n']}:{'0' * 64}", *here)
    assert wrong.code == 1 and "is not the one" in wrong.out
    exported = fairlead("audit", "export", *here)
    assert len(exported.out.splitlines()) == whole.lines[0]["entries"]
    # The program that the page prints comes to the same result.
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    ran = subprocess.run(
        [sys.executable, "-c", program], input=exported.out, capture_output=True, text=True, check=False
    )
    assert ran.stdout == f"ok {whole.lines[0]['head']['hash']}\n", ran.stderr
    changed = exported.out.replace("audited", "forged", 1)
    ran = subprocess.run([sys.executable, "-c", program], input=changed, capture_output=True, text=True, check=False)
    assert ran.returncode == 1


def test_a_changed_file_is_reported(gateway: CliGateway, fairlead: Fairlead, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    (copy / FOLDER).mkdir(parents=True)
    for path in audit_files(gateway.data / FOLDER):
        (copy / FOLDER / path.name).write_bytes(path.read_bytes().replace(b"gateway.start", b"gateway.stars", 1))
    found = fairlead("audit", "verify", "--data", str(copy))
    assert found.code == 1
    assert "was changed" in found.out and "audit.head is missing" in found.out


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--head", "7"), 2),
        (("--head", "x:" + "0" * 64), 2),
        (("--archive", "/no/such/folder"), 2),
        (("--data", "/no/such/data"), 5),
    ],
)
def test_impossible_options_are_explained(
    gateway: CliGateway, fairlead: Fairlead, words: tuple[str, ...], code: int
) -> None:
    here = () if "--data" in words else ("--data", str(gateway.data))
    ran = fairlead("audit", "verify", *words, *here)
    assert ran.code == code and ran.err
