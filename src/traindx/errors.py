"""Everything traindx raises on purpose.

TraindxError
├── UsageError          wrong call, option, setting or target            exit 2
├── NothingReadable     the input holds nothing we can read              exit 3
├── PartlyReadable      input is incomplete and `--strict` was given     exit 4
├── EnvironmentFault    permission, disk, port, missing extra            exit 5
├── RecordError         a record on disk that cannot be trusted          exit 3
│   └── NewerRecord     written by a newer traindx                       exit 3
└── TwinLeak            a trial left a trace on the original             exit 70

A message says what was asked, what was there, and what to do.
"""

NO_TORCH = "torch is not installed in this Python"


class TraindxError(Exception):
    """Root of all deliberate errors; `exit_code` is what the command line returns for it."""

    exit_code = 70


class UsageError(TraindxError):
    """The call, option, setting or target is wrong."""

    exit_code = 2


class NothingReadable(TraindxError):
    """The input holds nothing we can read."""

    exit_code = 3


class PartlyReadable(TraindxError):
    """Part of the input was skipped although `--strict` asked for all of it."""

    exit_code = 4


class EnvironmentFault(TraindxError):
    """The machine, not the input, is in the way."""

    exit_code = 5


class RecordError(TraindxError):
    """A record on disk that cannot be trusted."""

    exit_code = 3


class NewerRecord(RecordError):
    """The record was written by a newer traindx than this one."""


class TwinLeak(TraindxError):
    """A trial left a trace on the user's own task."""
