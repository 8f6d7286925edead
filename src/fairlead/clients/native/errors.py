"""What is wrong with a frame, beside the tree of `model.errors`. The codes are stable."""

from fairlead.model.errors import BadRequest


class BadFrame(BadRequest):
    """Not of the form that this connection speaks; it has no id that an answer could carry."""

    code = "bad_frame"


class UnknownType(BadRequest):
    code = "unknown_type"


class UnknownField(BadRequest):
    """Refused rather than ignored: whoever sends a field believes that it does something."""

    code = "unknown_field"
