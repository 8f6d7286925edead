"""Ids and times of the demo agent, in the forms the real CLI uses; no other file here reads the calendar."""

import time
import uuid


def new_uuid() -> str:
    return str(uuid.uuid4())


def new_id(prefix: str, length: int = 24) -> str:
    """An id such as msg_..., toolu_..., req_...: the prefix and hexadecimal digits."""
    return prefix + uuid.uuid4().hex[:length]


def timestamp() -> str:
    """Now, as ISO 8601 in UTC with milliseconds."""
    now = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"


def epoch_ms() -> int:
    return int(time.time() * 1000)
