"""The run on disk: `Writer` records it, `read` gives it back, `follow` reads it while it grows, `list_records` finds many."""

from traindx.record.listing import Record, is_record, list_records
from traindx.record.manifest import fresh_dir
from traindx.record.reader import Follower, follow, read, read_ranks
from traindx.record.tiers import Budget
from traindx.record.writer import Writer

__all__ = ["Budget", "Follower", "Record", "Writer", "follow", "fresh_dir", "is_record", "list_records", "read", "read_ranks"]
