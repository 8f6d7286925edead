"""Kinds of records per version of Claude Code: a page written for an older version can opt out of records that it does
not know (`records=2.1.37`). Pure.

A kind is a record's type, with its subtype, its status (of `system/status`) or its attachment's type if it has one.
The table lists the records that real CLIs sent and wrote to transcripts in the tested versions, and the records that
the protocol of 2.1.37 describes. A kind may be a little older than the table says, never newer. A kind that is not in
the table is newer than all listed versions.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from fairlead.model.errors import BadRequest
from fairlead.model.formats.frames import decode_or_none

Version = tuple[int, ...]

_VERSION: Final = re.compile(r"\d{1,6}(\.\d{1,6}){1,3}")
_BASE: Final = """
    user assistant stream_event result progress control_request control_response control_cancel_request keep_alive
    queue-operation file-history-snapshot summary custom-title tag agent-name attachment/hook_success
    system/init system/status system/compact_boundary system/microcompact_boundary system/api_error system/turn_duration
    system/hook_started system/hook_progress system/hook_response system/task_notification system/files_persisted
    tool_progress tool_use_summary auth_status rate_limit_event streamlined_text streamlined_tool_use_summary
"""
_IN_120: Final = """
    last-prompt system/api_retry system/local_command system/notification system/status/requesting system/task_progress
    system/task_started attachment/budget_usd attachment/max_turns_reached attachment/plan_mode
    attachment/plan_mode_exit attachment/skill_listing
"""
_IN_325: Final = """
    command_lifecycle system/background_tasks_changed system/permission_denied system/task_updated
    system/thinking_tokens api-request api-request-blob api-request-shape atis-latch attachment
    cost-state file-history-delta mode tools-used
"""
FIRST: Final[Mapping[str, Version]] = {
    **dict.fromkeys(_BASE.split(), (2, 1, 37)),
    **dict.fromkeys(_IN_120.split(), (2, 1, 120)),
    **dict.fromkeys(_IN_325.split(), (2, 1, 325)),
}
"""The first version known to have each kind. A type alone stands for all of its kinds that are not listed."""


class _Record(msgspec.Struct):
    type: Any = None
    subtype: Any = None
    status: Any = None
    attachment: Any = None


_decoder: Final = msgspec.json.Decoder(_Record)


def read_version(text: str) -> Version:
    """Parse the version of the option `records`; empty if it is not set. Raises BadRequest."""
    if not text:
        return ()
    if not _VERSION.fullmatch(text):
        raise BadRequest("records must be a version such as 2.1.37.", field="records")
    return tuple(map(int, text.split(".")))


def check_options(options: Mapping[str, str]) -> None:
    """Check the options of an extra port (`--door`). Raises BadRequest."""
    read_version(options.get("records", ""))


def kinds_of(data: bytes) -> Iterable[str]:
    """Return the names of a record's kind, the most specific first."""
    record = decode_or_none(_decoder.decode, data)
    if record is None:
        return ()
    inner = record.attachment.get("type") if isinstance(record.attachment, dict) else record.subtype
    names = [str(record.type)]
    if isinstance(inner, str) and inner:
        names.insert(0, f"{names[0]}/{inner}")
        if isinstance(record.status, str) and record.status:
            names.insert(0, f"{names[0]}/{record.status}")
    return names


def has_kind(version: Version, data: bytes) -> bool:
    """Return whether `version` has records of this kind; true for every record if no version was requested."""
    if not version:
        return True
    first = next((FIRST[kind] for kind in kinds_of(data) if kind in FIRST), None)
    return first is not None and first <= version
