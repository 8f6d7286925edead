"""`fairlead hand-over` against a real gateway. The demo agent supports only stdio, so any other destination fails."""

from cli.conftest import CliGateway, Fairlead


def waiting(fairlead: Fairlead, gateway: CliGateway) -> str:
    """A session whose turn waits for a permission."""
    ran = fairlead("run", "--json", "SCRIPT:write handed.txt")
    return str(ran.lines[0]["session"])


def test_hand_over_waits_prints_the_reasons_and_is_withdrawn(fairlead: Fairlead, gateway: CliGateway) -> None:
    session = waiting(fairlead, gateway)
    ran = fairlead("hand-over", session, "dial-in")
    assert ran.code == 0
    assert "To dial-in after a running turn, a request that waits for an answer (Write)" in ran.err
    assert "will be handed over to dial-in" in fairlead("logs", session).out
    (reply,) = fairlead("hand-over", session, "--withdraw", "--json").lines
    assert reply["data"] == {"state": "there", "link": "stdio"}
    assert fairlead("hand-over", session, "--withdraw").code == 5
    refused = fairlead("hand-over", session, "dial-in", "--no-wait")
    assert refused.code == 1 and "a running turn" in refused.err


def test_failed_start_is_reported_and_the_session_continues(fairlead: Fairlead, gateway: CliGateway) -> None:
    session = waiting(fairlead, gateway)
    ran = fairlead("hand-over", session, "dial-in", "--now")
    assert ran.code != 0 and "runs on stdio only" in ran.err
    assert "stays on stdio, the hand-over failed" in fairlead("logs", session).out
    assert fairlead("run", "SCRIPT:text after", "--session", session).code == 0
    there = fairlead("hand-over", session, "stdio")
    assert there.code == 0 and "stays there" in there.err


def test_hand_over_requires_a_valid_destination(fairlead: Fairlead, gateway: CliGateway) -> None:
    for words in ((), ("nowhere",), ("stdio", "--withdraw"), ("--withdraw", "--now")):
        assert fairlead("hand-over", "0000dead", *words).code == 2
