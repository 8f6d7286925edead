"""Errors of a frame, in addition to the tree of `model.errors`. The codes are stable."""

from fairlead.model.errors import BadRequest


class BadFrame(BadRequest):
    """The frame is not in this connection's encoding; it has no id that the answer could carry."""

    code = "bad_frame"


class UnknownType(BadRequest):
    code = "unknown_type"


class UnknownField(BadRequest):
    """An unknown field is rejected rather than ignored: a client that sends a field expects an effect."""

    code = "unknown_field"
