"""Fetches from npm the programs that judge Fairlead's use of ACP (Agent Client Protocol): agents, a client, the schema.

They go into the same cache as the Claude CLIs, one folder per name and version. Each package that has a program has its
pinned hash; the small libraries of codex-acp are the ones that npm resolves that day. No package's own scripts run.
`python -m tools.acp_agents [name ...]` fetches the named ones, by default all. Standard library only.
"""

import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tools.clis import InstallFailed, Release, attempt, cache_folder, check_integrity, say
from tools.npm_locked import fill_once, npm


@dataclass(frozen=True)
class Judge:
    """One npm package that tests use, and the further packages that npm installs for it and whose hashes are pinned."""

    release: Release
    parts: tuple[Release, ...] = ()


# The sizes are those on disk.
JUDGES = {
    # Without its optional packages: they are terminals and key stores, for which it has replacements of its own.
    "gemini": Judge(
        Release(
            "0.61.0",
            "@google/gemini-cli",
            "sha512-dbQ9A0qBtFJNi6XBkHvfZ6Azpn6PNgH/P8h2MZ67RLlX8hSAVjup39CRWqdRxZv7YXIuhrFaytr8y0jKnkoxnQ==",
            "node_modules/@google/gemini-cli/bundle/gemini.js",
            "96 MB",
            ("--omit=optional",),
        )
    ),
    # The package `opencode-ai` only chooses the platform's package, by a script.
    "opencode": Judge(
        Release(
            "1.18.33",
            "opencode-linux-x64",
            "sha512-q/t/3p2CTxOT9y2kvjesb/LZab2+1eqlhhWA02Be6mjTtmYtNBcBsrI5yDo4Fw7ZSPBW2oyMIGMNRqiKQjiAWw==",
            "node_modules/opencode-linux-x64/bin/opencode",
            "177 MB",
        )
    ),
    # The schema of the protocol, which is a file of its TypeScript library; zod is not needed to read it.
    "sdk": Judge(
        Release(
            "2.4.0",
            "@agentclientprotocol/sdk",
            "sha512-7qJ8nnyj7WesC5ve185ioTpB2/svQoeGV4HA4nLEhgDUrcmBe54/08VcXc/oL4p14tDbxxECZzdYmUYQ+4l+Wg==",
            "node_modules/@agentclientprotocol/sdk/schema/v1/schema.json",
            "9 MB",
            ("--omit=peer",),
        )
    ),
    # A client on the command line. Its optional packages are native replacements for code of its own.
    "acpx": Judge(
        Release(
            "0.19.1",
            "acpx",
            "sha512-zKVZVM6tHGXmdXU+sC30jdFLzz0ZpNLMorYKH+it3XcuEcvFl20sLbHPqfdjfsLfV+PmhRDEm1b9Np5KxgFHow==",
            "node_modules/acpx/dist/cli.js",
            "31 MB",
            ("--omit=optional",),
        )
    ),
    # Zed's adapter for Claude Code. Without its optional packages: they contain a whole Claude Code.
    "claude": Judge(
        Release(
            "0.99.1",
            "@agentclientprotocol/claude-agent-acp",
            "sha512-tK5lNtoI85IS0K8PVKYK86t/ARgCS1AjEw+u6QSNmdu0tbhyeB6FTNzFnGNIgsL/3xYwrQUMFDC6osT1aIPReQ==",
            "node_modules/@agentclientprotocol/claude-agent-acp/dist/index.js",
            "77 MB",
            ("--omit=optional",),
        )
    ),
    "codex": Judge(
        Release(
            "2.6.0",
            "@agentclientprotocol/codex-acp",
            "sha512-/PBsd0H6URy4bhXhAeXqwb7RqctbXfNceRihAh6nDmn5HJ873uzoHvHxF45YmeWfgOKKRrNRLZjYsket2a7EsQ==",
            "node_modules/@agentclientprotocol/codex-acp/dist/index.js",
            "457 MB",
        ),
        (
            Release(
                "0.166.0",
                "@openai/codex",
                "sha512-2Szlp1l1cz5TX1ccpX4Zok3DZrot9xeZe0km+6/1v8JmqxADwyJxKBJah4dBymkwtS25j/u6dipJusTOI97Z8Q==",
                "node_modules/@openai/codex/bin/codex.js",
                "0 MB",
            ),
            # The executable, which is a version of that same package under another name.
            Release(
                "npm:@openai/codex@0.166.0-linux-x64",
                "@openai/codex-linux-x64",
                "sha512-CxDm3+D1cpbGJeHrdzINoG+3wn9BVncP4qpZaaNYkxe8iPtRJOYyCJnnPoVjWRIBvI9vPKbRoifsMSA5xDaUpw==",
                "node_modules/@openai/codex-linux-x64/vendor",
                "436 MB",
            ),
        ),
    ),
}


def program_path(name: str) -> Path:
    """The agent's program (of `sdk`: the schema), whether or not it is fetched yet. A path in .js is for node."""
    release = JUDGES[name].release
    return cache_folder() / "acp" / name / release.version / release.program


def fetch(name: str) -> None:
    release = JUDGES[name].release
    folder = cache_folder() / "acp" / name / release.version
    fill_once(folder, f"{release.package} {release.version}", release.size, partial(_install, JUDGES[name]))


def _install(judge: Judge, folder: Path) -> None:
    # A separate package.json keeps npm from installing into a parent folder.
    (folder / "package.json").write_text('{"private": true}\n')
    named = f"{judge.release.package}@{judge.release.version}"
    further = [f"{part.package}@{part.version}" for part in judge.parts]
    npm(folder, named, "install", "--ignore-scripts", *judge.release.options, *further, named)
    for release in (judge.release, *judge.parts):
        check_integrity(folder, release)
    if not (folder / judge.release.program).exists():
        raise InstallFailed(f"{named} has no {judge.release.program}: not installed")


def main(names: Sequence[str]) -> int:
    if unknown := set(names) - set(JUDGES):
        say(f"no such ACP agent: {', '.join(sorted(unknown))} (there are {', '.join(JUDGES)})")
        return 2
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        say("the ACP agents run on Linux x86_64 only: nothing fetched")
        return 0
    return 1 if sum(not attempt(partial(fetch, name)) for name in names or JUDGES) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
