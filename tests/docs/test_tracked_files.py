"""Text that the repository must not contain: paths of the machine it was written on, and package registry hosts."""

import re
import subprocess

import pytest

from docs.documents import ROOT

pytestmark = pytest.mark.process

# Put together from pieces, so that this file passes its own test.
MACHINE_PATH = re.compile(r"(?<![\w.~$}*-])/(?:" + "|".join(["wor" + "k", "roo" + "t"]) + r")/")
REGISTRY = re.compile(
    "|".join(
        re.escape(host)
        for host in ["pypi" + ".org", "pythonhosted" + ".org", "npmjs" + ".org", "npmjs" + ".com", "yarnpkg" + ".com"]
    )
)


def tracked_files() -> list[str]:
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [file for file in listed.stdout.split("\0") if file and (ROOT / file).is_file()]


def places(pattern: re.Pattern[str]) -> list[str]:
    found = []
    for file in tracked_files():
        text = (ROOT / file).read_text(encoding="utf-8", errors="replace")
        for number, line in enumerate(text.splitlines(), start=1):
            if match := pattern.search(line):
                found.append(f"{file}:{number}: {line[max(0, match.start() - 30) : match.end() + 30]}")
    return found


def test_no_tracked_file_names_a_path_of_this_machine() -> None:
    assert places(MACHINE_PATH) == []


def test_no_tracked_file_names_a_package_registry() -> None:
    assert places(REGISTRY) == []
