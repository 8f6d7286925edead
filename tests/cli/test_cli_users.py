"""`fairlead user`: users are created, listed, given a password, removed, invited; a password is never an argument."""

import io
import json
import sys
import urllib.error
import urllib.request
from typing import Any

import pytest

from cli.conftest import CliGateway, Fairlead

PASSWORD = "correct horse"


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that sets the stdin of the next command."""

    def give(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))

    return give


def post(gateway: CliGateway, path: str, body: dict[str, str], token: str = "") -> tuple[int, dict[str, Any]]:
    headers = {"content-type": "application/json", **({"authorization": f"Bearer {token}"} if token else {})}
    request = urllib.request.Request(f"{gateway.running.url}{path}", json.dumps(body).encode(), headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def login(gateway: CliGateway, name: str, password: str) -> tuple[int, dict[str, Any]]:
    return post(gateway, "/claudecodeui/api/auth/login", {"username": name, "password": password})


def test_user_signs_in_until_the_password_changes_or_the_user_is_removed(
    fairlead: Fairlead, gateway: CliGateway, typed: Any
) -> None:
    typed(f"{PASSWORD}\n")
    added = fairlead("user", "add", "carol", "--password")
    assert added.code == 0
    assert "may view, chat, approve." in added.err
    status, signed = login(gateway, "carol", PASSWORD)
    assert (status, signed["user"]["username"]) == (200, "carol")
    typed("battery staple\nignored\n")
    assert fairlead("user", "passwd", "carol").code == 0
    assert login(gateway, "carol", PASSWORD)[0] == 401
    assert login(gateway, "carol", "battery staple")[0] == 200
    assert post(gateway, "/claudecodeui/api/auth/refresh", {}, signed["token"])[0] == 401
    assert fairlead("user", "remove", "carol").code == 0
    assert login(gateway, "carol", "battery staple")[0] == 401
    assert fairlead("user", "remove", "carol").code == 5
    assert fairlead("user", "remove", "owner").code != 0
    typed(f"{PASSWORD}\n")
    assert fairlead("user", "passwd", "nobody-here").code == 5


def test_list_of_users_contains_no_secrets(fairlead: Fairlead, gateway: CliGateway, typed: Any) -> None:
    typed(f"{PASSWORD}\n")
    assert fairlead("user", "add", "dave", "--password", "--scope", "chat,view").code == 0
    assert fairlead("user", "add", "erin").code == 0
    listed = {line["name"]: line for line in fairlead("user", "list", "--json").lines}
    assert (listed["dave"]["password"], listed["dave"]["scopes"]) == (True, ["view", "chat"])
    assert (listed["erin"]["password"], listed["erin"]["scopes"]) == (False, [])
    assert set(listed["dave"]) == {"name", "created", "password", "scopes"}
    shown = fairlead("user", "list").out
    assert "dave" in shown and "view,chat" in shown and "argon2" not in shown


@pytest.mark.parametrize(
    ("words", "stdin", "message"),
    [
        (("user", "add", "frank", "--password"), "", "password is missing"),
        (("user", "add", "frank", "--password"), "short\n", "at least 8"),
        (("user", "add", "frank", "--password", "--scope", "root"), "correct horse\n", "not a scope"),
        (("user", "add", "frank", "--scope", "view"), "", "--password"),
        (("user", "add", "Frank!", "--password"), "correct horse\n", "name"),
        (("user", "invite", "--scope", "everything"), "", "not a scope"),
    ],
)
def test_failures_are_reported(
    fairlead: Fairlead, gateway: CliGateway, typed: Any, words: tuple[str, ...], stdin: str, message: str
) -> None:
    typed(stdin)
    ran = fairlead(*words)
    assert ran.code != 0
    assert message in ran.err
    assert "frank" not in fairlead("user", "list").out


def test_a_password_is_asked_for_twice_on_a_terminal(
    fairlead: Fairlead, gateway: CliGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []

    def prompt(text: str, **options: Any) -> str:
        asked.append({"text": text, **options})
        return PASSWORD

    monkeypatch.setattr("fairlead.cli.commands.accounts.typer.prompt", prompt)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    assert fairlead("user", "add", "gina", "--password").code == 0
    assert asked == [{"text": "Password for gina", "hide_input": True, "confirmation_prompt": True, "err": True}]


def test_an_invitations_link_makes_one_account(fairlead: Fairlead, gateway: CliGateway) -> None:
    ran = fairlead("user", "invite", "--scope", "view")
    page, _, code = ran.out.strip().partition("#")
    assert page == f"{gateway.running.url}/claudecodeui/invite"
    body = {"username": "hugo", "password": PASSWORD, "invitation": code}
    status, made = post(gateway, "/claudecodeui/api/auth/register", body)
    assert (status, made["user"]["username"]) == (200, "hugo")
    status, again = post(gateway, "/claudecodeui/api/auth/register", {**body, "username": "ida"})
    assert (status, again["code"]) == (403, "BAD_INVITATION")
    assert set(fairlead("user", "invite", "--json").lines[0]) == {"url", "code", "expires"}
