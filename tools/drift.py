"""`make drift VERSION=2.1.200`: does that version of Claude Code still work with us, and what does it have that we
lack?

Installs the version into the cache, runs the scenarios of tests/e2e on it over every link that it supports, prints a
table and everything in its `--help`, its traffic and its bundle that we do not know, and stores the result in
docs/reference/compatibility.json, from which the table of compatibility.md is written.
"""

import argparse
import datetime
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fairlead.agents.claude.versions import Abilities, parse_version
from tools.clis import RELEASES, InstallFailed, fetch, integrity, program_path, release_of

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "reference" / "compatibility.json"
PAGE = ROOT / "docs" / "reference" / "compatibility.md"
INNET = str(ROOT / "tools" / "innet")

SCENARIOS = (
    "tests/e2e/test_harness.py",
    *(
        f"tests/e2e/test_real_{name}.py"
        for name in ("turns", "permissions", "hooks", "wire", "records", "terminal", "handover", "transcripts")
    ),
    "tests/e2e/dialin",
)
"""The tests that depend on the CLI. `make test` tests the protocols in front of the gateway on the pinned versions."""

WAYS = ("stdio", "dial-in", "terminal")
BEGIN, END = "<!-- table: written by make drift -->", "<!-- end of the table -->"

FLAG = re.compile(r"^\s+(?:-\w, )?(--[a-zA-Z][a-zA-Z-]*)", re.MULTILINE)
HOOKS = re.compile(rb'\["PreToolUse"(?:,"[A-Za-z]+")+\]')
SUBTYPE = re.compile(rb'subtype:[\w$.]{1,20}\("([a-z_]+)"\)')

Result = dict[str, Any]


def numbers(version: str) -> tuple[int, int, int]:
    found = parse_version(version)
    if found is None:
        raise SystemExit(f"drift: {version!r} is no version")
    return found


def way_of(test: str, version: str) -> str:
    """The link over which a test drives the CLI, by the test's name."""
    if Abilities(numbers(version)).dial_in and ("/dialin/" in test or "dial-in" in test):
        return "dial-in"
    return "terminal" if "test_real_terminal" in test or "test_real_handover" in test else "stdio"


def counted(tests: Mapping[str, str], version: str) -> dict[str, Result]:
    """Per link: how many passed, and the names of those that did not. Tests for other versions do not count."""
    ways: dict[str, Result] = {}
    for test, outcome in sorted(tests.items()):
        if outcome == "skipped":
            continue
        way = ways.setdefault(way_of(test, version), {"passed": 0, "failed": []})
        if outcome == "passed":
            way["passed"] += 1
        else:
            way["failed"].append(test.partition("::")[2].replace(f"[{version}]", ""))
    return ways


def flags_of(version: str) -> set[str]:
    """The flags of `--help`, run in the same isolation as every real CLI."""
    with tempfile.TemporaryDirectory() as home:
        env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": home, "LANG": "C.UTF-8"}
        argv = [INNET, str(program_path(version)), "--help"]
        help_run = subprocess.run(argv, env=env, cwd=home, capture_output=True, text=True, check=False)
    return set(FLAG.findall(help_run.stdout))


def in_bundle(version: str) -> tuple[set[str], set[str]]:
    """Hook events and subtypes that its program names: a hint, because a name need not be in use."""
    program = program_path(version)
    data = program.read_bytes() if program.exists() else b""
    events = {name.decode() for found in HOOKS.findall(data) for name in re.findall(rb'"([A-Za-z]+)"', found)}
    return events, {name.decode() for name in SUBTYPE.findall(data)}


def run(version: str) -> Result:
    """Run the scenarios on that version; return what tools/drift_watch.py recorded."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "seen.json"
        options = ["-p", "tools.drift_watch", f"--drift-file={file}", f"--rules-file={folder}/rules.json", "-q"]
        options.append("--timeout=600")  # for a test that hangs: a busy machine is not the version's fault
        argv = [INNET, sys.executable, "-m", "pytest", *options, "-m", "not long", *SCENARIOS]
        env = {**os.environ, "FAIRLEAD_CLIS": version}
        subprocess.run(argv, cwd=ROOT, env=env, check=False)
        if not file.exists():
            raise SystemExit(f"drift: the scenarios did not run on {version}")
        seen: Result = json.loads(file.read_text())
    return seen


def result(version: str, seen: Mapping[str, Any], known: Mapping[str, list[str]], today: str) -> Result:
    events, _ = in_bundle(version)
    unknown = {
        "records": seen["records"],
        "rows": seen["rows"],
        "requests": seen["requests"],
        "flags": sorted(flags_of(version) - {*known["flags"]}),
        "hooks": sorted(events - {*known["hooks"]}),
    }
    release = release_of(version)
    return {
        "date": today,
        "integrity": integrity(program_path(version).parent, release),
        "ways": counted(seen["tests"], version),
        "unknown": {kind: found for kind, found in unknown.items() if found},
    }


def cell(version: str, ways: Mapping[str, Result], way: str) -> str:
    if way == "dial-in" and not Abilities(numbers(version)).dial_in:
        return "the CLI refuses"
    if way not in ways:
        return "not run"
    passed, failed = ways[way]["passed"], len(ways[way]["failed"])
    return f"{passed} of {passed + failed}"


def table(versions: Mapping[str, Result]) -> str:
    """The table of compatibility.md."""
    lines = ["| version | stdio | dial-in | terminal | tried on |", "|---|---|---|---|---|"]
    failures: list[str] = []
    for version in sorted(versions, key=numbers):
        one = versions[version]
        cells = " | ".join(cell(version, one["ways"], way) for way in WAYS)
        lines.append(f"| {version} | {cells} | {one['date']} |")
        failures += [
            f"- {version}, {way}: `{name}`" for way in WAYS for name in one["ways"].get(way, {}).get("failed", [])
        ]
    if failures:
        lines += ["", "Not passed:", "", *failures]
    return "\n".join(lines)


def page(text: str, versions: Mapping[str, Result]) -> str:
    """The page with its table updated."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{table(versions)}\n\n{END}{rest.partition(END)[2]}"


def report(version: str, one: Result, hints: Iterable[str]) -> str:
    lines = [f"Claude Code {version} ({one['integrity'][:19]}...)"]
    for way in WAYS:
        lines.append(f"  {way:<9} {cell(version, one['ways'], way)}")
        lines += [f"    FAILED {name}" for name in one["ways"].get(way, {}).get("failed", [])]
    for kind, found in one["unknown"].items():
        lines.append(f"  {kind} that we do not know: {', '.join(found)}")
    if named := sorted(hints):
        lines.append(f"  subtypes that its bundle names and {RELEASES[-1].version}'s does not: {', '.join(named)}")
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Run the scenarios on versions of Claude Code and keep the result.")
    parser.add_argument("versions", nargs="+", metavar="VERSION")
    failed = False
    for version in parser.parse_args(argv).versions:
        numbers(version)
        try:
            fetch(release_of(version))
        except InstallFailed as failure:
            print(f"drift: {failure}")
            return 1
        seen = run(version)
        kept = json.loads(RESULTS.read_text())
        today = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")
        one = kept["versions"][version] = result(version, seen, kept["known"], today)
        kept["versions"] = {name: kept["versions"][name] for name in sorted(kept["versions"], key=numbers)}
        RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
        PAGE.write_text(page(PAGE.read_text(), kept["versions"]))
        print(report(version, one, in_bundle(version)[1] - in_bundle(RELEASES[-1].version)[1]))
        failed = failed or any(way["failed"] for way in one["ways"].values())
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
