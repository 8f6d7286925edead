"""Building WebSocket frames, for views: a variant's bytes go to every watcher's socket as they are.

Client protocols may not see the server's driver, so what they need of it is in the model.
"""


def text_frame(payload: bytes) -> bytes:
    """One unmasked text message; `payload` is UTF-8 and is not checked, every caller has just encoded it."""
    return build_frame(0x81, payload)


def binary_frame(payload: bytes) -> bytes:
    return build_frame(0x82, payload)


def build_frame(head: int, payload: bytes) -> bytes:
    """One unmasked frame; `head` is the whole first byte (FIN, reserved bits, opcode)."""
    length = len(payload)
    if length < 126:
        return bytes((head, length)) + payload
    if length < 65536:
        return bytes((head, 126, length >> 8, length & 255)) + payload
    return bytes((head, 127)) + length.to_bytes(8, "big") + payload
