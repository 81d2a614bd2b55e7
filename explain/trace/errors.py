"""The errors of a recording."""


class TraceError(ValueError):
    """This run cannot be recorded; the message says why."""


class BadTarget(TraceError):
    """The file, function or programs to record do not exist, or the function needs arguments."""


class TraceTooLarge(TraceError):
    """The recording reached its limit of steps or bytes."""


class TookTooLong(TraceError):
    """The run reached its limit of time."""


class Refused(TraceError):
    """Triton's compiler would not accept this kernel; the message says why."""


class OutOfBounds(ValueError):
    """A kernel accessed memory outside its tensor. On a GPU this is an illegal access or reads garbage.

    `access` says which element of what; `program` did it, at `place`. The message is both.
    """

    def __init__(self, access: str, place: str = "", program: tuple[int, ...] = ()) -> None:
        super().__init__(f"{place}: {access}" if place else access)
        self.access, self.program = access, program
