"""Parts of the HTML export: the page's head and foot, and the functions that turn arbitrary text into safe HTML.

Rule: no text reaches the page except through `escape_text`. The page has no script and loads nothing, and its own
Content-Security-Policy enforces that.
"""

import re
from base64 import b64encode
from datetime import UTC, datetime
from hashlib import sha256
from html import escape
from typing import Any, Final

import msgspec

from fairlead.model.store import Summary

_SEQUENCES: Final = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC: titles, links, the clipboard
    r"|\x1b[PX^_][^\x1b]*(?:\x1b\\)?"  # DCS, SOS, PM, APC
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # CSI: colours, cursor
    r"|\x1b[ -/]*[0-~]?"
)
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+={0,2}")

_STYLE: Final = """
:root{color-scheme:light dark;--line:#8885;--soft:#8881;--dim:#888}
body{font:16px/1.55 system-ui,sans-serif;max-width:52rem;margin:0 auto;padding:2rem 1rem 4rem}
h1{font-size:1.4rem;margin:0 0 .25rem}
.meta,.note,time{color:var(--dim);font-size:.85rem}
.meta{margin:0 0 2rem}
.user{background:var(--soft);border-left:3px solid #47a;border-radius:4px;padding:.6rem 1rem;margin:1.6rem 0 1rem}
.who{font-weight:600;margin-right:.6rem}
.say,.user p{white-space:pre-wrap;overflow-wrap:anywhere;margin:.6rem 0}
.partial{opacity:.65}
details{border:1px solid var(--line);border-radius:4px;margin:.6rem 0;padding:.3rem .8rem}
details[open]{padding-bottom:.6rem}
summary{cursor:pointer;overflow-wrap:anywhere}
summary code{font-weight:600}
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:var(--soft);border-radius:4px;padding:.6rem}
pre{font-size:.85rem;margin:.5rem 0}
img{max-width:100%}
.bad{color:#c33}
.end{border-top:1px solid var(--line);color:var(--dim);font-size:.85rem;margin:1.2rem 0;padding-top:.3rem}
"""
_HASH: Final = b64encode(sha256(_STYLE.encode()).digest()).decode()
POLICY: Final = f"default-src 'none'; style-src 'sha256-{_HASH}'; img-src data:; base-uri 'none'; form-action 'none'"


def escape_text(text: str) -> str:
    """Escape text for HTML, without control sequences, control characters and bidirectional overrides."""
    return escape(_CONTROLS.sub("", _SEQUENCES.sub("", text.replace("\r\n", "\n"))))


def code(value: Any) -> str:
    """Render a value as indented JSON, a string as it is."""
    text = value if isinstance(value, str) else msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    return f"<pre>{escape_text(text)}</pre>"


def time_html(at: int) -> str:
    """Render a time in milliseconds since 1970; empty if it is not a valid date."""
    try:
        text = datetime.fromtimestamp(at / 1000, UTC).isoformat(sep=" ", timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return ""
    return f"<time>{text.removesuffix('+00:00')} UTC</time>" if at > 0 else ""


def block(value: Any) -> str:
    """Render one block of content of any kind."""
    match value:
        case {"type": "text", "text": str(text)}:
            return code(text)
        case {"type": "image"}:
            return image(value.get("source"))
        case _:
            return code(value)


def image(source: Any) -> str:
    """Render an image, only if its data is embedded and of a known image type."""
    match source:
        case {"media_type": str(kind), "data": str(data)} if kind in _IMAGES and _BASE64.fullmatch(data):
            return f'<p><img alt="" src="data:{kind};base64,{data}"></p>'
    return '<p class="note">(an image that is not in this file)</p>'


def head(summary: Summary) -> str:
    title = escape_text(summary.title or summary.first_prompt[:80] or "Session")
    facts = [
        *map(escape_text, (summary.cwd, summary.agent, summary.model)),
        "1 turn" if summary.turns == 1 else f"{summary.turns} turns",
        f"${summary.cost_usd:.4f}",
        time_html(summary.created),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="referrer" content="no-referrer">'
        f"<title>{title}</title><style>{_STYLE}</style></head><body><h1>{title}</h1>"
        f'<p class="meta">{" &middot; ".join(filter(None, facts))}</p>\n'
    )


FOOT: Final = "</body></html>\n"
