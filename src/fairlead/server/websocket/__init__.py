"""The WebSocket driver: frames, connections and endpoints. Import from here; the files inside may move.

`run_endpoint` serves one connection, `driver_class` makes the class for uvicorn.
"""

from fairlead.server.websocket.connection import EXTENSION, Connection, ConnectionOptions, Endpoint
from fairlead.server.websocket.errors import (
    BadHandshake,
    FrameError,
    InvalidText,
    MessageTooBig,
    Misuse,
    PeerGone,
    ProtocolViolation,
    WebSocketError,
)
from fairlead.server.websocket.frames import binary_frame, close_frame, ping_frame, pong_frame, text_frame
from fairlead.server.websocket.keepalive import Keepalive
from fairlead.server.websocket.parser import FrameParser
from fairlead.server.websocket.protocol import WebSocketDriver, driver_class
from fairlead.server.websocket.run import run_endpoint

__all__ = [
    "EXTENSION",
    "BadHandshake",
    "Connection",
    "ConnectionOptions",
    "Endpoint",
    "FrameError",
    "FrameParser",
    "InvalidText",
    "Keepalive",
    "MessageTooBig",
    "Misuse",
    "PeerGone",
    "ProtocolViolation",
    "WebSocketDriver",
    "WebSocketError",
    "binary_frame",
    "close_frame",
    "driver_class",
    "ping_frame",
    "pong_frame",
    "run_endpoint",
    "text_frame",
]
