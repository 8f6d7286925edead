"""The fence as a law: no call of the corpus is allowed, and the corpus does harm without a policy."""

import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from fairlead.model.policy import Behavior, PermissionMode
from fairlead.sessions.permissions import disk
from fairlead.sessions.permissions.policy.call import Fences
from sessions.policy.canary import RULES, Case, World, build, corpus
from sessions.policy.fake_folders import judge

pytestmark = pytest.mark.process

ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "GIT_CONFIG_NOSYSTEM": "1"}


def verdict(world: World, case: Case, mode: PermissionMode) -> Behavior:
    folder = str(world.folder(case))
    closed = (str(world.data), str(world.home / ".config/fairlead"))
    return judge(
        case.tool,
        case.input,
        allow=RULES,
        mode=mode,
        cwd=folder,
        roots=(folder,),
        home=str(world.home),
        fences=Fences(closed, (world.port,)),
        resolve=disk.resolve,
        entries=disk.entries,
    ).behavior


@pytest.fixture
def world(tmp_path: Path) -> World:
    return build(Path(os.path.realpath(tmp_path)))


@pytest.mark.parametrize("mode", [PermissionMode.DEFAULT, PermissionMode.ACCEPT_EDITS])
def test_nothing_of_the_corpus_is_allowed(world: World, mode: PermissionMode) -> None:
    cases = corpus(world)
    assert len(cases) > 700
    allowed = [case for case in cases if verdict(world, case, mode) is Behavior.ALLOW]
    assert allowed == []


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_without_a_policy_the_lines_of_the_corpus_do_harm(world: World, shell: str) -> None:
    """The control: a harmless corpus would prove nothing."""
    program = shutil.which(shell)
    assert program is not None, f"{shell} is not installed: `make clis` fetches it"
    # In zsh *** follows the links to /proc/self/cwd forever.
    lines = [case for case in corpus(world) if case.tool == "Bash" and "***" not in case.input["command"]]
    harmed: Counter[str] = Counter()
    harmless: list[str] = []
    for case in lines:
        if harms(program, world, case):
            harmed[case.group] += 1
        elif case.shows and shell == "bash":
            harmless.append(case.input["command"])
    assert len(harmless) < 25, harmless
    assert harmed.total() > 250, harmed
    groups = {"word", "variables", "elsewhere", "folders", "recursion", "many", "git", "writes", "home"}
    assert groups <= set(harmed), harmed


def harms(program: str, world: World, case: Case) -> bool:
    arguments = ["--norc", "-c"] if program.endswith("bash") else ["-f", "-c"]
    done = subprocess.run(
        [program, *arguments, case.input["command"]],
        cwd=world.folder(case),
        env={**ENVIRONMENT, "HOME": str(world.home)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=20,
        check=False,
    )
    harm = world.harm(done.stdout.decode(errors="replace"))
    world.restore()
    return harm is not None
