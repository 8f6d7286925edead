"""The gate's decision as a matrix of host, origin, site, credential and scope; each alone can cause a refusal."""

import base64
from typing import Any, Literal

import pytest

from fairlead.auth.gate import AccessAllowed, AccessRefused, AccessRequirement, basic_to_check, decide
from fairlead.auth.origins import AllowedOrigins, Origin
from fairlead.model.auth import SCOPES, Identity, Scope
from fairlead.model.web.requests import Head

ALLOWED = AllowedOrigins(ports=frozenset({8787}), origins=frozenset({Origin("https", "friend.example", 443)}))
VIEW = AccessRequirement(access="view")


class FakeCredentials:
    """Credentials: `good` is a viewer's, `root` an admin's."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def bearer(self, secret: str) -> Identity | None:
        self.asked.append(secret)
        scopes: dict[str, frozenset[Scope]] = {"good": frozenset({"view"}), "root": frozenset({"admin"})}
        return Identity(secret, "owner", secret, scopes[secret]) if secret in scopes else None

    def ticket(self, ticket: str) -> Identity | None:
        return self.bearer("good") if ticket == "t1" else None

    def signature(self, path: str, query: str) -> Identity | None:
        return self.bearer("good") if (path, query) == ("/v1/file", "sig=s1") else None

    def agent(self, secret: str, session: str) -> Identity | None:
        return Identity("agent:a", "", "agent", frozenset()) if (secret, session) == ("agents", "s1") else None

    def account(self, token: str) -> Identity | Literal["expired"] | None:
        if token == "a.b.c":
            return Identity("user:1", "ann", "ann", frozenset({"view", "chat"}), 99)
        return "expired" if token == "o.l.d" else None

    def basic(self, name: str, password: str) -> Identity | None:
        self.asked.append(f"{name}:{password}")
        return Identity("user:1", "ann", "ann", frozenset({"view"})) if (name, password) == ("ann", "pâss:w") else None

    def session_agent(self, secret: str) -> Identity | None:
        own: frozenset[Scope] = frozenset({"view"})
        return Identity("session:a", "ann", "a", own, agent=True, session="s1") if secret == "session" else None


def head(*headers: tuple[str, str], **other: Any) -> Head:
    """A good request, except for the given headers and fields."""
    names = {name for name, _ in headers}
    good = (("host", "localhost:8787"), ("authorization", "Bearer good"))
    values = tuple(pair for pair in good if pair[0] not in names) + tuple(pair for pair in headers if pair[1] != "-")
    return Head(**{"method": "GET", "path": "/v1/x", "headers": values, "local": "127.0.0.1", **other})


def verdict(request: Head, demand: AccessRequirement = VIEW) -> AccessAllowed | AccessRefused:
    return decide(request, demand, ALLOWED, FakeCredentials())


def code(request: Head, demand: AccessRequirement = VIEW) -> str:
    found = verdict(request, demand)
    return found.code if isinstance(found, AccessRefused) else "allowed"


both = pytest.mark.parametrize("socket", [False, True], ids=["http", "websocket"])


@both
def test_good_request_is_allowed_with_the_identity_of_its_credential(socket: bool) -> None:
    found = verdict(head(socket=socket))
    assert isinstance(found, AccessAllowed)
    assert found.identity.name == "good"


@both
@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("-", "bad_host"),
        ("", "bad_host"),
        ("localhost.:8787", "bad_host"),
        ("localhost:8787/x", "bad_host"),
        ("attacker.test", "foreign_host"),
        ("attacker.test:8787", "foreign_host"),
        ("127.0.0.1.nip.io:8787", "foreign_host"),
        ("localhost", "foreign_host"),
        ("127.1:8787", "foreign_host"),
    ],
)
def test_a_foreign_or_odd_host_is_refused(socket: bool, host: str, expected: str) -> None:
    assert code(head(("host", host), socket=socket)) == expected


@both
def test_two_hosts_are_refused_even_if_both_are_ours(socket: bool) -> None:
    twice = head(("host", "localhost:8787"), ("host", "localhost:8787"), socket=socket)
    assert code(twice) == "bad_host"


@both
@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "",
        "http://evil",
        "http://localhost.evil",
        "http://localhost.evil:8787",
        "http://localhost:3000",
        "http://localhost",
        "https://localhost:8787",
        "http://localhost:8787/",
        "http://localhost:8787.evil",
        "http://evil/http://localhost:8787",
    ],
)
def test_foreign_origin_is_refused_with_any_credential(socket: bool, origin: str) -> None:
    assert code(head(("origin", origin), socket=socket)) == "foreign_origin"
    assert code(head(("origin", origin), socket=socket), AccessRequirement(access="public")) == "foreign_origin"


@both
def test_the_origin_of_an_installed_app_is_allowed_where_the_route_names_it(socket: bool) -> None:
    app = ("origin", "vscode-file://vscode-app")
    demand = AccessRequirement(access="view", app_origins=("vscode-file://vscode-app",))
    cross = ("sec-fetch-site", "cross-site")
    assert code(head(app, cross, socket=socket), demand) == "allowed"
    assert code(head(app, socket=socket)) == "foreign_origin"
    assert code(head(app, app, socket=socket), demand) == "foreign_origin"
    assert code(head(("origin", "vscode-file://other"), socket=socket), demand) == "foreign_origin"
    assert code(head(app, ("authorization", "Bearer wrong"), socket=socket), demand) == "bad_credential"


@both
def test_two_origins_are_refused(socket: bool) -> None:
    ours = ("origin", "http://localhost:8787")
    assert code(head(ours, ours, socket=socket)) == "foreign_origin"


@both
def test_own_origin_is_allowed(socket: bool) -> None:
    for origin in ("http://localhost:8787", "http://127.0.0.1:8787", "http://[::1]:8787"):
        assert code(head(("origin", origin), socket=socket)) == "allowed"


def test_configured_origin_is_allowed_across_sites() -> None:
    friend = (("origin", "https://friend.example"), ("sec-fetch-site", "cross-site"))
    assert code(head(*friend, socket=True)) == "allowed"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("site", ["cross-site", "same-site", "", "nonsense", "Same-Origin"])
def test_a_change_from_another_site_is_refused(method: str, site: str) -> None:
    assert code(head(("sec-fetch-site", site), method=method)) == "cross_site"


@pytest.mark.parametrize("mode", ["no-cors", "cors", "navigate", "websocket"])
def test_cross_site_request_is_refused_in_every_fetch_mode(mode: str) -> None:
    crossing = (("sec-fetch-site", "cross-site"), ("sec-fetch-mode", mode))
    assert code(head(*crossing, method="POST")) == "cross_site"
    assert code(head(*crossing, socket=True)) == "cross_site"


def test_change_from_the_same_origin_or_from_no_page_is_allowed() -> None:
    for site in ("same-origin", "none"):
        assert code(head(("sec-fetch-site", site), method="POST")) == "allowed"


@both
def test_without_a_credential_only_public_routes_are_allowed(socket: bool) -> None:
    anonymous = head(("authorization", "-"), socket=socket)
    assert code(anonymous) == "no_credential"
    assert code(anonymous, AccessRequirement(access="any")) == "no_credential"
    assert code(anonymous, AccessRequirement(access="public")) == "allowed"


@both
@pytest.mark.parametrize(
    "value", ["Bearer bad", "Bearer", "Bearer ", "bearer  ", "good", "Basic good", "Bearer good extra", "Bearergood"]
)
def test_a_bad_credential_is_refused(socket: bool, value: str) -> None:
    assert code(head(("authorization", value), socket=socket)) == "bad_credential"


def test_authorization_scheme_is_case_insensitive() -> None:
    assert code(head(("authorization", "bEARER good"))) == "allowed"


def test_two_authorizations_are_refused() -> None:
    assert code(head(("authorization", "Bearer good"), ("authorization", "Bearer root"))) == "bad_credential"


def test_good_token_in_the_query_does_not_excuse_a_bad_header() -> None:
    request = head(("authorization", "Bearer bad"), query="ticket=t1", socket=True)
    assert code(request) == "bad_credential"


@both
def test_no_cookie_authorises_anything(socket: bool) -> None:
    request = head(("authorization", "-"), ("cookie", "token=good; session=good; authorization=Bearer good"))
    assert code(request) == "no_credential"


def test_ticket_opens_sockets_only_and_is_passed_on_to_be_redeemed() -> None:
    bare = ("authorization", "-")
    found = verdict(head(bare, query="ticket=t1", socket=True))
    assert isinstance(found, AccessAllowed) and found.ticket == "t1"
    assert code(head(bare, query="ticket=t2", socket=True)) == "bad_credential"
    assert code(head(bare, query="ticket=t1")) == "no_credential"


def test_signature_opens_only_routes_that_accept_signatures() -> None:
    request = head(("authorization", "-"), path="/v1/file", query="sig=s1")
    assert code(request, AccessRequirement(access="view", signed=True)) == "allowed"
    assert code(request) == "no_credential"
    assert code(
        head(("authorization", "-"), path="/v1/other", query="sig=s1"), AccessRequirement(access="view", signed=True)
    ) == ("bad_credential")


def test_a_token_in_the_query_counts_only_under_the_routes_own_name() -> None:
    request = head(("authorization", "-"), query="token=good", socket=True)
    assert code(request) == "no_credential"
    assert code(request, AccessRequirement(access="view", token_query="token")) == "allowed"
    assert code(request, AccessRequirement(access="view", token_query="access_token")) == "no_credential"
    assert code(
        head(("authorization", "-"), query="token="), AccessRequirement(access="view", token_query="token")
    ) == ("bad_credential")


def test_an_overlong_query_holds_no_credential() -> None:
    request = head(("authorization", "-"), query="&".join(["token=good"] * 101))
    assert code(request, AccessRequirement(access="view", token_query="token")) == "no_credential"


@both
@pytest.mark.parametrize("scope", SCOPES)
def test_the_credentials_scopes_decide(socket: bool, scope: Scope) -> None:
    assert code(head(socket=socket), AccessRequirement(access=scope)) == (
        "allowed" if scope == "view" else "not_allowed"
    )
    assert code(head(("authorization", "Bearer root"), socket=socket), AccessRequirement(access=scope)) == "allowed"


@both
def test_scopes_that_a_request_claims_do_nothing(socket: bool) -> None:
    forged = head(
        ("x-scopes", "admin"),
        ("x-fairlead-scope", "admin"),
        ("x-forwarded-user", "owner"),
        query="scopes=admin&scope=admin",
        socket=socket,
    )
    assert code(forged, AccessRequirement(access="admin")) == "not_allowed"


AGENT = AccessRequirement(access="agent", token_query="token", session="s1")


@both
def test_an_agents_token_opens_the_routes_of_its_session_and_no_other(socket: bool) -> None:
    request = head(("authorization", "Bearer agents"), socket=socket)
    found = verdict(request, AGENT)
    assert isinstance(found, AccessAllowed) and found.identity.scopes == frozenset()
    assert code(request, AccessRequirement(access="agent", session="s2")) == "bad_credential"
    assert code(request, AccessRequirement(access="agent")) == "bad_credential"
    assert code(request, AccessRequirement(access="any")) == "bad_credential"
    assert code(request, VIEW) == "bad_credential"


@both
@pytest.mark.parametrize("secret", ["good", "root"])
def test_tokens_of_people_do_not_open_agent_routes(socket: bool, secret: str) -> None:
    assert code(head(("authorization", f"Bearer {secret}"), socket=socket), AGENT) == "not_allowed"


@both
def test_an_agents_token_is_accepted_in_a_header_only(socket: bool) -> None:
    for query in ("token=agents", "ticket=t1", "sig=s1"):
        assert code(head(("authorization", "-"), query=query, socket=socket), AGENT) == "no_credential"
    for wrong in ("Bearer", "Bearer nonsense", "Basic agents"):
        assert code(head(("authorization", wrong), socket=socket), AGENT) == "bad_credential"
    twice = (("authorization", "Bearer agents"), ("authorization", "Bearer agents"))
    assert code(head(*twice, socket=socket), AGENT) == "bad_credential"


def test_the_peers_address_is_not_a_credential() -> None:
    assert code(head(("authorization", "-"), peer="127.0.0.1")) == "no_credential"


def test_host_and_origin_are_checked_before_any_credential_is_looked_up() -> None:
    credentials = FakeCredentials()
    for wrong in (("host", "attacker.test"), ("origin", "http://evil"), ("sec-fetch-site", "cross-site")):
        decide(head(wrong, method="POST"), VIEW, ALLOWED, credentials)
    assert credentials.asked == []


def test_a_refusal_repeats_nothing_of_the_request() -> None:
    found = verdict(head(("authorization", "Bearer sekrit"), path="/v1/private"))
    assert isinstance(found, AccessRefused)
    assert "sekrit" not in found.message and "private" not in found.message


# --- tokens of users who signed in with a password

USERS = AccessRequirement(access="view", token_query="token", accounts=True, query_first=True)


@both
def test_a_users_token_opens_only_routes_that_accept_user_tokens(socket: bool) -> None:
    signed = head(("authorization", "Bearer a.b.c"), socket=socket)
    found = verdict(signed, USERS)
    assert isinstance(found, AccessAllowed)
    assert (found.identity.user, found.identity.expires) == ("ann", 99)
    for access in ("view", "chat", "admin", "any"):
        assert code(signed, AccessRequirement(access=access, token_query="token")) == "bad_credential"
    assert code(signed, AccessRequirement(access="admin", accounts=True)) == "not_allowed"
    assert code(signed, AccessRequirement(access="agent", session="s1", accounts=True)) == "bad_credential"


def test_expired_token_is_distinguished_from_an_unknown_one() -> None:
    assert code(head(("authorization", "Bearer o.l.d")), USERS) == "expired_credential"
    assert code(head(("authorization", "Bearer x.y.z")), USERS) == "bad_credential"
    assert code(head(("authorization", "Bearer ")), USERS) == "bad_credential"
    assert code(head(("authorization", "-")), USERS) == "no_credential"


@pytest.mark.rules("S003-013", "S003-014")
def test_query_takes_precedence_over_the_header_and_any_scheme_is_accepted() -> None:
    for query, header, expected in (
        ("token=a.b.c", "-", "allowed"),
        ("token=a.b.c", "Bearer x.y.z", "allowed"),
        ("token=x.y.z", "Bearer a.b.c", "bad_credential"),
        ("other=1", "Token a.b.c", "allowed"),
        ("", "a.b.c", "bad_credential"),
    ):
        assert code(head(("authorization", header), query=query, socket=True), USERS) == expected
    strict = AccessRequirement(access="view", token_query="token", accounts=True)
    assert code(head(("authorization", "Token a.b.c")), strict) == "bad_credential"
    assert code(head(("authorization", "Bearer x.y.z"), query="token=a.b.c"), strict) == "bad_credential"


# --- HTTP Basic, where a door has it

BASIC = AccessRequirement(access="view", token_query="token", token_header="x-api-key", basic=True)


def typed(text: str = "ann:pâss:w") -> tuple[str, str]:
    return "authorization", f"Basic {base64.b64encode(text.encode()).decode()}"


@both
def test_name_and_password_open_only_routes_that_accept_basic(socket: bool) -> None:
    found = verdict(head(typed(), socket=socket), BASIC)
    assert isinstance(found, AccessAllowed) and found.identity.user == "ann"
    for demand in (VIEW, USERS, AccessRequirement(access="any"), AGENT):
        assert code(head(typed(), socket=socket), demand) == "bad_credential"
    assert code(head(typed(), socket=socket), AccessRequirement(access="admin", basic=True)) == "not_allowed"


@both
@pytest.mark.parametrize(
    "value", ["Basic", "Basic ", "Basic !", "Basic YW5u", "Basic " + "YQ==" * 2000, typed("ann:")[1], typed(":x")[1]]
)
def test_wrong_name_or_password_makes_the_browser_ask_again(socket: bool, value: str) -> None:
    found = verdict(head(("authorization", value), socket=socket), BASIC)
    assert isinstance(found, AccessRefused)
    assert (found.status, found.code, found.basic) == (401, "bad_credential", True)


@both
def test_request_without_a_credential_makes_the_browser_ask(socket: bool) -> None:
    found = verdict(head(("authorization", "-"), socket=socket), BASIC)
    assert isinstance(found, AccessRefused) and (found.status, found.basic) == (401, True)
    # A client that sends a bad token is not asked for a password.
    for request in (
        head(("authorization", "Bearer bad"), socket=socket),
        head(("authorization", "-"), ("x-api-key", "bad"), socket=socket),
        head(("authorization", "-"), query="token=bad", socket=socket),
    ):
        found = verdict(request, BASIC)
        assert isinstance(found, AccessRefused) and (found.status, found.basic) == (401, False)
    assert code(head(socket=socket), BASIC) == "allowed", "tokens are good as elsewhere"


ELSEWHERE = [
    (("sec-fetch-site", "cross-site"),),
    (("sec-fetch-site", "same-site"),),
    (("sec-fetch-site", ""),),
    (("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")),
    (("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")),
    (("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "image")),
    (("origin", "https://friend.example"),),
]


@both
@pytest.mark.parametrize("page", [False, True])
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
@pytest.mark.parametrize("marks", ELSEWHERE, ids=str)
def test_credentials_that_the_browser_adds_are_refused_for_other_pages(
    marks: tuple[tuple[str, str], ...], method: str, page: bool, socket: bool
) -> None:
    demand = AccessRequirement(access="view", basic=True, page=page)
    for credential in (typed(), ("authorization", "-")):
        request = head(credential, *marks, method=method, socket=socket)
        found = verdict(request, demand)
        assert isinstance(found, AccessRefused) and found.status == 403, "and no browser asks in its name"
        assert basic_to_check(request, demand, ALLOWED) is None, "it costs no attempt"


def test_link_of_another_site_may_lead_to_a_page_and_to_nothing_else() -> None:
    link = (("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document"))
    assert code(head(typed(), *link), AccessRequirement(access="view", basic=True, page=True)) == "allowed"
    assert code(head(typed(), *link), BASIC) == "cross_site"
    assert (
        code(head(typed(), *link, method="POST"), AccessRequirement(access="view", basic=True, page=True))
        == "cross_site"
    )


def test_password_is_checked_only_if_everything_else_is_allowed() -> None:
    assert basic_to_check(head(typed()), BASIC, ALLOWED) == ("ann", "pâss:w")
    for request in (head(typed(), ("host", "attacker.test")), head(typed(), ("origin", "http://evil")), head()):
        assert basic_to_check(request, BASIC, ALLOWED) is None
    for demand in (VIEW, AccessRequirement(access="public", basic=True), AccessRequirement(access="agent", basic=True)):
        assert basic_to_check(head(typed()), demand, ALLOWED) is None


def test_a_route_for_agents_takes_the_token_of_a_sessions_agent_and_others_do_not() -> None:
    request = head(("authorization", "Bearer session"))
    found = verdict(request, AccessRequirement(access="view", agents=True))
    assert isinstance(found, AccessAllowed) and found.identity.session == "s1" and found.identity.agent
    assert code(request) == "bad_credential"
    assert code(request, AccessRequirement(access="any")) == "bad_credential"
    assert code(request, AccessRequirement(access="agent", session="s1")) == "bad_credential"
    assert code(request, AccessRequirement(access="chat", agents=True)) == "not_allowed"


def test_a_person_on_a_route_for_agents_is_an_agent_that_decides_nothing() -> None:
    found = verdict(head(("authorization", "Bearer root")), AccessRequirement(access="view", agents=True))
    assert isinstance(found, AccessAllowed)
    who = found.identity
    assert who.agent and who.session == "" and who.scopes == {"view", "chat"} and who.seen_by == "owner"
    assert (
        code(head(("authorization", "Bearer root")), AccessRequirement(access="approve", agents=True)) == "not_allowed"
    )
    plain = verdict(head(("authorization", "Bearer root")))
    assert isinstance(plain, AccessAllowed) and not plain.identity.agent and plain.identity.scopes == {"admin"}
