"""A signed link opens exactly the signed path and query, with the credential it was signed for, until it expires."""

from hypothesis import given
from hypothesis import strategies as st

from fairlead.auth.signed_urls import LIFETIME_MS, sign, signer

KEY = b"k" * 32
PATHS = st.text(st.characters(codec="ascii", exclude_characters="?#\n\r\x00"), max_size=30).map(lambda text: f"/{text}")
QUERIES = st.text(st.characters(codec="ascii", exclude_characters="#\n\r\x00"), max_size=30)


def parts(url: str) -> tuple[str, str]:
    path, _, query = url.partition("?")
    return path, query


@given(PATHS, QUERIES, st.from_regex(r"[a-z0-9]{8}", fullmatch=True), st.integers(1, 10**13))
def test_signed_url_is_valid_until_it_expires(path: str, query: str, credential: str, expires: int) -> None:
    assert signer(KEY, *parts(sign(KEY, path, query, credential, expires)), expires - 1) == credential
    assert signer(KEY, *parts(sign(KEY, path, query, credential, expires)), expires) is None


@given(st.data())
def test_a_link_that_was_changed_anywhere_opens_nothing(data: st.DataObject) -> None:
    url = sign(KEY, "/v1/sessions/a/export", "format=html", "abcdefgh", 100)
    place = data.draw(st.integers(0, len(url) - 1))
    other = data.draw(st.characters(codec="ascii"))
    changed = url[:place] + other + url[place + 1 :]
    if changed != url:
        assert signer(KEY, *parts(changed), 1) is None


def test_nothing_can_be_added_after_or_before_the_signature() -> None:
    path, query = parts(sign(KEY, "/x", "format=html", "abcdefgh", 100))
    assert signer(KEY, path, query, 1) == "abcdefgh"
    for odd in (f"{query}&format=jsonl", f"a=1&{query}", f"{query}&{query.rpartition('&')[2]}", f"x{query}", ""):
        assert signer(KEY, path, odd, 1) is None


def test_expiry_beyond_the_longest_lifetime_is_invalid() -> None:
    for expires, opens in ((1000 + LIFETIME_MS, True), (1001 + LIFETIME_MS, False), (10**14, False)):
        found = signer(KEY, *parts(sign(KEY, "/x", "", "abcdefgh", expires)), 1000)
        assert (found is not None) is opens


def test_signature_of_another_key_is_invalid() -> None:
    assert signer(KEY, *parts(sign(b"z" * 32, "/x", "", "abcdefgh", 100)), 1) is None


def test_malformed_signatures_are_just_wrong() -> None:
    for odd in ("sig=", "sig=1", "sig=1.a.b", "sig=-1.a." + "0" * 64, "sig=9.é." + "0" * 64, "xsig=9.a." + "0" * 64):
        assert signer(KEY, "/x", odd, 1) is None
