"""permessage-deflate (RFC 7692), always without context takeover: negotiates it and builds compressed frames.

Off unless an endpoint requests it: it costs 2.4 to 6 times the CPU of plain frames, so it is for history, not for live
events. Without context takeover a connection keeps no window between messages. The parser does the inflating.
"""

import zlib
from dataclasses import dataclass
from typing import Final

from websockets.exceptions import InvalidHeader, NegotiationError
from websockets.extensions.permessage_deflate import ServerPerMessageDeflateFactory
from websockets.headers import build_extension, parse_extension

from fairlead.model.formats.frames import build_frame
from fairlead.server.websocket.frames import BINARY, FIN, RSV1, TEXT

_NAME: Final = "permessage-deflate"
_DEFLATE_TAIL_LENGTH: Final = 4
_FACTORY: Final = ServerPerMessageDeflateFactory(server_no_context_takeover=True, client_no_context_takeover=True)


@dataclass(frozen=True, slots=True)
class Deflate:
    """The negotiated parameters: the value of the response header, and the window that our frames may use."""

    header: bytes
    window_bits: int

    def frame(self, payload: bytes, binary: bool = False) -> bytes:
        """Build one compressed message as one frame."""
        compressor = zlib.compressobj(wbits=-self.window_bits)
        data = compressor.compress(payload) + compressor.flush(zlib.Z_SYNC_FLUSH)
        return build_frame(FIN | RSV1 | (BINARY if binary else TEXT), data[:-_DEFLATE_TAIL_LENGTH])


def negotiate(offers: list[bytes]) -> Deflate | None:
    """Accept the first suitable offer among the values of Sec-WebSocket-Extensions, or return None for plain frames."""
    for value in offers:
        try:
            extensions = parse_extension(value.decode("latin-1"))
        except InvalidHeader:
            continue
        for name, parameters in extensions:
            if name != _NAME:
                continue
            try:
                answer, agreed = _FACTORY.process_request_params(parameters, [])
            except NegotiationError:
                continue
            return Deflate(build_extension([(name, answer)]).encode(), agreed.local_max_window_bits)
    return None
