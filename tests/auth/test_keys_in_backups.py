"""No key that is in use is in a backup: a stolen backup cannot be used to sign anything."""

import base64
from pathlib import Path

from fairlead.auth.api.credentials import DEFAULT_SCOPES
from fairlead.auth.credentials import Credentials
from fairlead.auth.keyfile import FILE, URLS, KeyFile
from fairlead.auth.signed_urls import sign
from fairlead.notifications.secret_box import FILE as SECRETS
from fairlead.notifications.secret_box import FieldCipher
from fairlead.stores.sqlite import SqliteStore, restore
from fairlead_testing.clock import ManualClock
from stores.sqlite_stores import back_up

OLD = b"\x17" * 32
"""A key as older versions stored it in the database."""


async def test_no_live_key_is_in_a_backup(tmp_path: Path) -> None:
    clock, data = ManualClock(), tmp_path / "data"
    store = await SqliteStore.open(data)
    await store.documents.put("auth", "url-key", OLD.hex())
    credentials = Credentials(store.documents, clock, key=KeyFile(data), url_key=KeyFile(data, URLS))
    await credentials.load()
    made = await credentials.create("token", "laptop", ("view",))
    await credentials.accounts.add("ann", "long enough", DEFAULT_SCOPES)
    await credentials.accounts.sign_in("ann", "long enough", "203.0.113.7")
    FieldCipher(data).seal("a secret")
    link = credentials.sign(made.credential.id, "/x", "")
    assert credentials.signature("/x", link.url.partition("?")[2]) is not None
    forged = sign(OLD, "/x", "", made.credential.id, link.expires)
    assert credentials.signature("/x", forged.partition("?")[2]) is None
    await back_up(store, tmp_path / "backup")
    await store.close()
    kept = (tmp_path / "backup").read_bytes()
    for name in (FILE, URLS, SECRETS):
        key = (data / name).read_bytes()
        assert not any(form in kept for form in (key, key.hex().encode(), base64.b64encode(key)[:-4]))
    restore(tmp_path / "backup", tmp_path / "second")
    again = await SqliteStore.open(tmp_path / "second")
    assert await again.documents.list("auth") == {}
    await again.close()
