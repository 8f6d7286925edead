"""Tokens of agents that connect to the gateway: one per session, known again after a restart by their digest."""

from auth.fakes import FakeTokenBytes
from fairlead.auth.agent_tokens import AgentTokens


def test_a_restarted_gateway_accepts_the_token_again_and_no_other() -> None:
    ended: list[str] = []
    first, second = AgentTokens(FakeTokenBytes(), ended.append), AgentTokens(FakeTokenBytes(), ended.append)
    secret = first.issue("s1")
    saved = first.save("s1")
    assert secret not in saved and first.save("s2") == ""
    assert second.identity(secret, "s1") is None
    second.restore("s1", saved)
    known = second.identity(secret, "s1")
    assert known is not None and known == first.identity(secret, "s1")
    assert second.identity(secret, "s2") is None and second.identity(secret + "x", "s1") is None
    second.restore("s1", "")
    assert second.save("s1") == saved
    second.revoke("s1")
    assert second.identity(secret, "s1") is None and len(ended) == 1
