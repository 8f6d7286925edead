"""Tokens of sessions' agents: one per session, with the scopes that the settings give, gone with the agent."""

from auth.fakes import FakeTokenBytes
from fairlead.auth.session_agents import SessionAgentTokens


def tokens() -> tuple[SessionAgentTokens, list[str]]:
    ended: list[str] = []
    return SessionAgentTokens(FakeTokenBytes(), ended.append), ended


def test_a_token_names_its_session_and_user_and_nothing_more() -> None:
    made, _ = tokens()
    secret = made.issue("11111111-2222", "ann", ("view",))
    who = made.identity(secret)
    assert who is not None and (who.session, who.user, who.agent) == ("11111111-2222", "ann", True)
    assert who.scopes == {"view"} and who.name == "agent of session 11111111" and who.seen_by == "ann"
    for wrong in ("", secret[:-1], secret[:-1] + ("a" if secret[-1] != "a" else "b"), "fl_x_y"):
        assert made.identity(wrong) is None


def test_a_new_token_ends_the_one_before_and_the_end_of_the_agent_ends_it() -> None:
    made, ended = tokens()
    first = made.issue("s1", "ann", ("view", "chat"))
    other = made.issue("s2", "ann", ())
    second = made.issue("s1", "ann", ("view", "chat"))
    assert made.identity(first) is None and made.identity(second) is not None and len(ended) == 1
    made.revoke("s1")
    made.revoke("s1")
    assert made.identity(second) is None and made.identity(other) is not None and len(ended) == 2
    assert not made._open.keys() - set(made._of_session.values())
