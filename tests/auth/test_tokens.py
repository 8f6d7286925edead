"""The form of a token; the secret itself is not stored."""

import re
from secrets import token_bytes

from auth.fakes import FakeTokenBytes
from fairlead.auth.tokens import CredentialRecord, check_scopes, digest, mint, parse_token_id


def record(secret: str) -> CredentialRecord:
    return CredentialRecord(
        id="abcdefgh", kind="token", name="x", user="owner", scopes=("view",), digest=digest(secret), created=1
    )


def test_token_contains_its_id_and_256_random_bits() -> None:
    name, token = mint(FakeTokenBytes())
    assert re.fullmatch(r"fl_[a-z2-7]{8}_[a-z2-7]{52}", token)
    assert parse_token_id(token) == name


def test_no_two_tokens_are_equal() -> None:
    assert len({mint(token_bytes)[1] for _ in range(1000)}) == 1000


def test_malformed_token_has_no_id() -> None:
    _, token = mint(FakeTokenBytes())
    for odd in ("", "fl__", "secret", token[:-1], token + "a", token.upper(), " " + token, token + "\n"):
        assert parse_token_id(odd) is None


def test_only_the_whole_secret_matches() -> None:
    _, token = mint(FakeTokenBytes())
    kept = record(token)
    assert kept.matches(token)
    for wrong in ("", token[:-1], token + "a", token.replace("fl_", "fl-")):
        assert not kept.matches(wrong)


def test_a_view_holds_no_digest() -> None:
    assert "digest" not in record("s").view().__struct_fields__


def test_scopes_have_one_order_and_no_duplicates() -> None:
    assert check_scopes(("admin", "view", "view")) == ("view", "admin")
