"""The built-in fence: no rule and no mode lets a tool touch the gateway's data folder or connect to its port.

A fence, not a wall: an agent that may run arbitrary commands has its user's powers. It stops plainly written access.
"""

import ipaddress
import posixpath
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain, product
from string import ascii_letters, digits
from typing import Any
from urllib.parse import unquote

from fairlead.sessions.permissions.policy import paths
from fairlead.sessions.permissions.policy.call import CallFacts, Fences, PolicyContext, ToolCall
from fairlead.sessions.permissions.shell.line import Word
from fairlead.sessions.permissions.shell.resolution import ResolvedLine, path_words

_MAX_STRINGS = 1000
_MAX_DEPTH = 8
_MAX_HOST = 300  # a host name has at most 253 characters
_HOST_CHARACTERS = ascii_letters + digits + "_.-"
_LOCAL_NAMES = ("", "localhost", "ip6-localhost", "ip6-loopback")
COMMON_PORTS = (80, 443)

FOLDER = "the gateway's own folder is closed to tools"
PORT = "the gateway's own port is closed to tools"
ABOVE = "the search would go through the gateway's own folder"
PROCESSES = "what belongs to running processes is not the session's own"


def fence_refusal(call: ToolCall, facts: CallFacts, context: PolicyContext) -> str | None:
    """Explain why the fence refuses this call; None when it does not."""
    fences = context.fences
    if facts.shell is not None:
        return _shell_fenced(facts.shell, context)
    if facts.host is not None and facts.port in fences.ports:
        return PORT if facts.port not in COMMON_PORTS or is_gateway_host(facts.host, fences) else None
    if reads_attached(facts, context):
        return None
    folders = closed_folders(context)
    if any(paths.inside_any(place, folders) for place in facts.places):
        return FOLDER
    if isinstance(call.input, Mapping):
        for text in _strings(call.input, context.tools.prose):
            if _names_folder(text, context, folders):
                return FOLDER
            if "://" in text[:_MAX_HOST] and _names_port(text.split(maxsplit=1)[0], fences):
                return PORT
    return None


def reads_attached(facts: CallFacts, context: PolicyContext) -> bool:
    """Return whether the call reads a file that a user attached to a message. The names of these files cannot be
    guessed, and no tool may list them: an agent that knows a name was given it."""
    folder = context.fences.attached
    if facts.kind.effect != "read" or not folder or not facts.paths:
        return False
    return all(posixpath.dirname(posixpath.dirname(place)) == folder for place in facts.places)


def fence_doubt(facts: CallFacts, context: PolicyContext) -> str | None:
    """Explain why only a person may allow the paths of a file tool; None when there is no such reason."""
    folders = closed_folders(context) if facts.kind.effect == "search" else ()
    # A search that starts above a closed folder would read it.
    if any(paths.inside(folder, place) for folder in folders for place in facts.places):
        return ABOVE
    # The meaning of a path through /proc depends on the process that opens it.
    return PROCESSES if any(paths.in_processes(place) for place in facts.places) else None


def is_gateway_host(host: str, fences: Fences) -> bool:
    """Return whether a host name or address, in any spelling, means this machine."""
    name = host.strip("[]").rstrip(".").lower()
    if name in _LOCAL_NAMES or name.endswith(".localhost") or name in fences.hosts:
        return True
    address = _address(name)
    return address is not None and (address.is_loopback or address.is_unspecified)


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Parse an address as the C library does: 127.1, 0x7f000001 and 2130706433 are all 127.0.0.1."""
    try:
        if ":" in name:
            six = ipaddress.IPv6Address(name.partition("%")[0])
            return six.ipv4_mapped or six
        numbers = [
            int(part, 16 if part.startswith("0x") else 8 if part.startswith("0") else 10) for part in name.split(".")
        ]
        if len(numbers) > 4 or any(number > 255 for number in numbers[:-1]):
            return None
        high = sum(number << (24 - 8 * place) for place, number in enumerate(numbers[:-1]))
        return ipaddress.IPv4Address(high + numbers[-1])
    except ValueError:
        return None


def closed_folders(context: PolicyContext) -> tuple[str, ...]:
    """Return the closed folders as written, and their real places."""
    folders: list[str] = []
    for folder in context.fences.folders:
        folders.append(paths.tidy(folder))
        with suppress(paths.BadPath):
            folders.extend(context.resolve_literal(folder))
    return tuple(dict.fromkeys(folders))


def _names_folder(text: str, context: PolicyContext, folders: tuple[str, ...]) -> bool:
    """Return whether a text of a tool's input is a path into a closed folder, or a file URL of one."""
    path = text.strip()
    if path.lower().startswith("file:"):
        path = unquote(path[5:]).removeprefix("//localhost").removeprefix("//")
    if not path or ("/" not in path and not path.startswith("~")) or "\n" in path:
        return False
    try:
        return any(paths.inside_any(place, folders) for each in {text, path} for place in context.places(each))
    except paths.BadPath:
        return False


def _strings(value: Any, prose: frozenset[str]) -> Iterator[str]:
    """Yield the strings of an input that are not prose; their number and depth are limited."""
    stack: list[tuple[Any, int]] = [(value, 0)]
    count = 0
    while stack and count < _MAX_STRINGS:
        item, level = stack.pop()
        if isinstance(item, str):
            count += 1
            yield item
        elif level < _MAX_DEPTH and isinstance(item, Mapping):
            stack.extend((each, level + 1) for key, each in item.items() if key not in prose)
        elif level < _MAX_DEPTH and isinstance(item, list | tuple):
            stack.extend((each, level + 1) for each in item[:_MAX_STRINGS])


def _shell_fenced(followed: ResolvedLine, context: PolicyContext) -> str | None:
    words = list(dict.fromkeys(path_words(followed.analysis)))
    values = [value for argument in followed.arguments() for value in argument.values or ()]
    plain = "\n".join((followed.analysis.raw, *(word.lead for word in words), *values))
    if _names_port(plain, context.fences) or _dials_port(followed, plain, context.fences):
        return PORT
    folders = closed_folders(context)
    places = chain(followed.folders, *(argument.places for argument in followed.arguments()))
    fenced = (
        any(_mentions(plain, spelling) for folder in folders for spelling in _spellings(folder, context.home))
        or any(paths.inside_any(place, folders) for place in places)
        or any(_globs_into(word, context, folders) for word in words if word.value is None)
    )
    return FOLDER if fenced else None


def _spellings(folder: str, home: str | None) -> list[str]:
    if home is None or not paths.inside(folder, home) or folder == home:
        return [folder]
    rest = folder[len(home.rstrip("/")) :]
    return [folder, "~" + rest, "$HOME" + rest, "${HOME}" + rest, '"$HOME"' + rest]


def _mentions(text: str, folder: str) -> bool:
    return folder != "/" and re.search(re.escape(folder) + r"(?![\w.-])", text) is not None


def _globs_into(word: Word, context: PolicyContext, folders: tuple[str, ...]) -> bool:
    """Return whether a glob matches a closed folder, or something in it."""
    try:
        parts = paths.tidy(paths.absolute(word.raw, context.cwd, context.home)).split("/")
    except paths.BadPath:
        return False
    starts = ("/".join(parts[: folder.count("/") + 1]) for folder in folders)
    return any(paths.pattern_covers(start, folder, below=False) for start, folder in zip(starts, folders, strict=True))


# A port in the syntax of programs: a number, or lists, ranges and choices of numbers (`[7430-7440]`, `{80,443}`).
_PORT_TEXT = re.compile(r":([\[{(]?\d[\d,.\-\[\]{}]*)")
_URL = re.compile(r"(https?|wss?):/{1,3}+(?:[^\s/?#]*@)?+(\[[^\]\s]*\]|[\w.-]++)(?!:\d)", re.IGNORECASE)
"""A URL without a port. The quantifiers are possessive: a shorter host is another host."""
_NUMBERS = re.compile(r"(?<![\w.])0*(\d+)(?:(?:-|\.\.|:)0*(\d+))?(?!\w)")


def names_number(text: str, ports: Iterable[int]) -> bool:
    """Return whether a text contains one of these numbers, by itself or within a range."""
    for found in _NUMBERS.finditer(text):
        low, high = int(found[1][:9]), int((found[2] or found[1])[:9])
        if any(low <= port <= high or port in (low, high) for port in ports):
            return True
    return False


def _names_port(text: str, fences: Fences) -> bool:
    """Return whether a text contains an address with a port of the gateway, or a URL whose default port it is."""
    text = unicodedata.normalize("NFKC", text)
    for found, port in product(_PORT_TEXT.finditer(text), fences.ports):
        if not names_number(found[1], (port,)):
            continue
        left = text[max(0, found.start() - _MAX_HOST) : found.start()]
        host = left[left.rfind("[") :] if left.endswith("]") else left[len(left.rstrip(_HOST_CHARACTERS)) :]
        before = left[: len(left) - len(host)]
        scheme = before.endswith("://")
        # Without a host it is an address only at the start of a word: `"port":80` is not.
        if not host and not scheme and before and not before[-1].isspace():
            continue
        if (scheme and port not in COMMON_PORTS) or is_gateway_host(host, fences):
            return True
    return any(
        (443 if found[1].lower() in ("https", "wss") else 80) in fences.ports and is_gateway_host(found[2], fences)
        for found in _URL.finditer(text)
    )


def _dials_port(followed: ResolvedLine, text: str, fences: Fences) -> bool:
    """Return whether host and port appear separately: `nc localhost PORT`, `/dev/tcp/localhost/PORT`."""
    if any(re.search(rf"/dev/(?:tcp|udp)/[^/\s]*/0*{port}(?![0-9])", text) for port in fences.ports):
        return True
    for arguments, port in product(followed.commands, fences.ports):
        found = [unicodedata.normalize("NFKC", value) for each in arguments[1:] for value in each.values or () if value]
        named = [value for value in found if re.fullmatch(r"[\d\-:.,]+", value) and names_number(value, (port,))]
        if named and any(value not in named and is_gateway_host(value, fences) for value in found):
            return True
    return False
