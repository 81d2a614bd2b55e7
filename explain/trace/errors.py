"""What can go wrong with a recording, for its caller to catch."""


class TraceError(ValueError):
    """What was asked for cannot be recorded; the message says why."""


class BadTarget(TraceError):
    """The file or function to record is not there, or cannot be called without arguments."""


class TraceTooLarge(TraceError):
    """The recording reached its limit of steps or bytes."""


class OutOfBounds(ValueError):
    """A kernel touched memory outside the tensor it was given; on a GPU this is an illegal access or garbage."""
