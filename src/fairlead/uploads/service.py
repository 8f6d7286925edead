"""The store of uploads: files that users attach to a message, in one folder per user.

Rule: the names are generated, so that nothing from a wire is ever used as a path; and a user never gets another user's
file. The number of files and bytes per user is limited: a new file evicts the oldest.
"""

import asyncio
import contextlib
import logging
import os
import re
import shutil
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from fairlead.model.auth import Identity
from fairlead.model.errors import NotAllowed, NotFound, Stale, TooMany, Unavailable
from fairlead.model.web.requests import Response, ServiceHandlers
from fairlead.system.regular_files import open_regular
from fairlead.uploads import api
from fairlead.uploads.image_type import image_type

log = logging.getLogger(__name__)

FOLDER: Final = "uploads"
"""In the data folder."""
MOST_FILES: Final = 1000
MOST_BYTES: Final = 1 << 30
"""Limits per user: the files of a hundred full forms, and the bytes of ten forms of the largest files."""
AT_ONCE: Final = 4
"""Forms of one user that may be read at the same time."""

_DRAFT: Final = "."
"""Name prefix of incomplete files."""
_USER: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_EXTENSION: Final = re.compile(r"\.[a-z0-9]{1,10}")
_LONGEST_NAME: Final = 200
"""Longest display name in characters; the end of a longer name is kept."""
_MIME: Final = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,60}/[a-z0-9][a-z0-9!#$&^_.+-]{0,60}")


class Uploads:
    def __init__(self, folder: Path, *, most_files: int = MOST_FILES, most_bytes: int = MOST_BYTES) -> None:
        self.folder = Path(os.path.realpath(folder))
        self._most_files = most_files
        self._most_bytes = most_bytes
        self._under_way: Counter[str] = Counter()

    def handlers(self) -> ServiceHandlers:
        return {api.OpenIntake: self._open, api.ClaimUploads: self._take, api.ReadUpload: self._read}

    async def start(self) -> None:
        """Delete incomplete files of an earlier gateway, and create the folder: a sandboxed program sees only folders
        that existed when it was started."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        await asyncio.to_thread(self._tidy)

    def _tidy(self) -> None:
        for draft in self.folder.glob(f"*/{_DRAFT}*"):
            draft.unlink(missing_ok=True)

    def _of(self, who: Identity) -> Path:
        if not _USER.fullmatch(who.user):
            raise NotAllowed("Files belong to a user: sign in as one.")
        return self.folder / who.user

    async def forget(self, user: str) -> None:
        """Delete all files of a user who was removed."""
        if _USER.fullmatch(user):
            await asyncio.to_thread(shutil.rmtree, self.folder / user, ignore_errors=True)

    # --- in

    async def _open(self, who: Identity, action: api.OpenIntake) -> api.Intake:
        folder = self._of(who)
        if self._under_way[who.user] >= AT_ONCE:
            raise TooMany(f"{AT_ONCE} of your uploads are under way: wait until one is done.", limit=AT_ONCE)
        self._under_way[who.user] += 1

        def ended() -> None:
            self._under_way[who.user] -= 1

        return _Form(folder, ended, self._trim)

    def _trim(self, folder: Path, kept: int) -> None:
        """Delete the oldest files above the limits, but never the `kept` newest: the user is about to send them."""
        with os.scandir(folder) as entries:
            found = [(entry.stat(), entry.path) for entry in entries if api.NAME.fullmatch(entry.name)]
        found.sort(key=lambda file: (file[0].st_mtime_ns, file[1]), reverse=True)
        room = self._most_bytes
        for count, (about, path) in enumerate(found):
            room -= about.st_size
            if count >= kept and (count >= self._most_files or room < 0):
                Path(path).unlink(missing_ok=True)

    # --- out

    async def _take(self, who: Identity, action: api.ClaimUploads) -> tuple[api.ClaimedUpload, ...]:
        folder = self._of(who)
        uploads = api.owned_uploads(str(folder), action.uploads)
        left_out = len(action.uploads) - len(uploads)
        if left_out:
            about = {"who": who.name, "credential": who.credential, "files": left_out}
            log.warning("attachments left out", extra=about)
        return await asyncio.to_thread(lambda: tuple(_taken(uploads)))

    async def _read(self, who: Identity, action: api.ReadUpload) -> Response:
        if not api.NAME.fullmatch(action.name):
            raise NotFound("file", action.name)
        data = await asyncio.to_thread(_whole, self._of(who) / action.name)
        if data is None:
            raise NotFound("file", action.name)
        # Anything but a picture gets a type that a browser cannot execute, only save.
        kind = image_type(data) or "application/octet-stream"
        disposition = f'attachment; filename="{action.name}"'
        return Response(body=data, content_type=kind, headers=(("content-disposition", disposition),))


class _Form:
    """Implements `uploads.api.Intake`."""

    def __init__(self, folder: Path, ended: Callable[[], None], trim: Callable[[Path, int], None]) -> None:
        self._folder = folder
        self._ended: Callable[[], None] | None = ended
        self._trim = trim
        self._open: BinaryIO | None = None
        self._uploads: list[api.Upload] = []

    def begin(self, name: str, mime: str) -> None:
        display_name = _display_name(name)
        kind = mime.lower() if _MIME.fullmatch(mime.lower()) else "application/octet-stream"
        path = self._folder / f"{uuid.uuid4().hex}{_extension(display_name)}"
        with _translated():
            self._close()
            self._folder.parent.mkdir(mode=0o700, exist_ok=True)
            self._folder.mkdir(mode=0o700, exist_ok=True)
            handle = os.open(_draft(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self._open = os.fdopen(handle, "wb")
        self._uploads.append(api.Upload(str(path), display_name or path.name, kind, 0))

    def write(self, data: bytes) -> None:
        assert self._open is not None, "no file has begun"
        with _translated():
            self._open.write(data)
        last = self._uploads[-1]
        self._uploads[-1] = api.Upload(last.path, last.name, last.mime, (last.size or 0) + len(data))

    async def keep(self) -> tuple[api.Upload, ...]:
        with _translated():
            self._close()
            await asyncio.to_thread(self._name)
        self._end()
        return tuple(self._uploads)

    def _name(self) -> None:
        for upload in self._uploads:
            path = Path(upload.path)
            _draft(path).replace(path)
        self._trim(self._folder, len(self._uploads))

    def drop(self) -> None:
        if self._ended is None:
            return
        self._end()
        with contextlib.suppress(OSError):
            self._close()
        for upload in self._uploads:
            for path in (Path(upload.path), _draft(Path(upload.path))):
                path.unlink(missing_ok=True)

    def _close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def _end(self) -> None:
        if self._ended is not None:
            self._ended()
            self._ended = None


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Unavailable(f"The file cannot be kept: {error.strerror}. Try again later.") from error


def _draft(path: Path) -> Path:
    return path.with_name(_DRAFT + path.name)


def _display_name(name: str) -> str:
    """A file's display name: without folders, and without characters that a terminal would interpret."""
    last = re.split(r"[\\/]", name)[-1]
    return "".join(character for character in last if character.isprintable()).strip()[-_LONGEST_NAME:]


def _extension(name: str) -> str:
    end = os.path.splitext(name)[1].lower()
    return end if _EXTENSION.fullmatch(end) else ""


def _taken(uploads: list[api.Upload]) -> Iterator[api.ClaimedUpload]:
    room = api.BLOCK_BYTES
    for upload in uploads:
        data = _whole(Path(upload.path))
        display_name = upload.name or Path(upload.path).name
        if data is None:
            raise Stale(f"{display_name} is not there any more: attach it again.", file=display_name)
        block = api.block_of(data, display_name) if len(data) <= room else None
        room -= len(data) if block is not None else 0
        yield api.ClaimedUpload(
            upload if upload.size is not None else api.Upload(upload.path, display_name, upload.mime, len(data)), block
        )


def _whole(path: Path) -> bytes | None:
    """The content of a file; None if it is missing, a link, or not a regular file."""
    try:
        with open_regular(path) as file:
            return file.read(api.FILE_BYTES)
    except OSError:
        return None
