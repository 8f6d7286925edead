"""Logs: one line per connection event and per change of state, with fields, and never a secret.

The message of a record is the event's name, its `extra` are the fields. Log records of libraries go through the same
formatter, and every line goes through the redactor.
"""

import json
import logging
import re
import sys
import threading
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Literal, TextIO

Form = Literal["text", "json"]

_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "color_message", "taskName"}
_BARE: Final = re.compile(r"[^\s\"'=\x00-\x1f\x7f-\x9f]+")
_QUOTE: Final = r"(?:\\?[\"'])?"
_IS: Final = rf"{_QUOTE}\s*[=:]\s*{_QUOTE}"
_RULES: Final = (
    # A signed token, whose first part is always the beginning of a JSON object.
    (re.compile(r"\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+"), "***"),
    (re.compile(r"\b(fl_[a-z2-7]{8})_[a-z2-7]+"), r"\1_***"),
    # The complete value of these headers, with the scheme; then bearer tokens without a header name.
    (re.compile(rf"(?i)\b((?:proxy-)?authorization{_IS}|cookie{_IS})[^\"'\\,}}]+"), r"\1***"),
    (re.compile(r"(?i)\b(bearer\s+)[^\s\"',}\\]+"), r"\1***"),
    (re.compile(r"(?i)([?&#](?:access_)?(?:token|tkn|ticket|sig|code|login|key)=)[^&\s\"'#\\]+"), r"\1***"),
    (re.compile(rf"(?i)\b((?:token|ticket|secret){_IS})[^\s\"'&,}}\\]+"), r"\1***"),
)


class Redactor:
    """Masks all text that looks like one of our credentials, and the secrets passed to `hide`."""

    def __init__(self) -> None:
        self._hidden: list[str] = []

    def hide(self, secret: str) -> None:
        """Mask a secret that does not have our format: a token from the environment."""
        if secret:
            self._hidden.append(secret)

    def clean(self, text: str) -> str:
        for secret in self._hidden:
            text = text.replace(secret, "***")
        for pattern, mask in _RULES:
            text = pattern.sub(mask, text)
        return text


class LineFormatter(logging.Formatter):
    """Formats every record as one line: line breaks and control characters are escaped."""

    def __init__(self, form: Form, redactor: Redactor) -> None:
        super().__init__()
        self._form = form
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        fields.update((name, value) for name, value in record.__dict__.items() if name not in _STANDARD)
        if record.exc_info:
            fields["trace"] = self.formatException(record.exc_info)
        line = json.dumps(fields, default=str, ensure_ascii=False) if self._form == "json" else _text(fields)
        return self._redactor.clean(line)


def configure_logging(
    form: Form = "text", level: str = "INFO", stream: TextIO | None = None, redactor: Redactor | None = None
) -> Redactor:
    """Install the process's only log handler. Called once, before anything is served."""
    redactor = redactor or Redactor()
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(LineFormatter(form, redactor))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    _capture_stray_lines()
    # We log starts and stops ourselves, so uvicorn's messages about them are dropped; its warnings stay.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    return redactor


def _capture_stray_lines() -> None:
    """Log what Python would print by itself: warnings, and uncaught errors."""
    stray = logging.getLogger("fairlead.stray")
    logging.captureWarnings(True)

    def uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        stray.critical("uncaught error", exc_info=(kind, error, trace))

    def of_thread(given: threading.ExceptHookArgs) -> None:
        error = given.exc_value or given.exc_type()
        stray.error("uncaught error of a thread", exc_info=(given.exc_type, error, given.exc_traceback))

    def unraisable(given: "sys.UnraisableHookArgs") -> None:
        stray.error("error without a caller", exc_info=given.exc_value, extra={"object": repr(given.object)})

    sys.excepthook, threading.excepthook, sys.unraisablehook = uncaught, of_thread, unraisable


def _text(fields: dict[str, Any]) -> str:
    head = f"{fields.pop('at')} {fields.pop('level'):<7} {fields.pop('logger')}: {_escaped(str(fields.pop('event')))}"
    return " ".join([head, *(f"{name}={_value(value)}" for name, value in fields.items())])


def _value(value: Any) -> str:
    text = str(value)
    return text if _BARE.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def _escaped(text: str) -> str:
    return text if text.isprintable() else json.dumps(text, ensure_ascii=False)
