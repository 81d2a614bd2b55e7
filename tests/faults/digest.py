"""Whether two trace files hold the same run."""

import hashlib
from dataclasses import replace

from explain.trace import file


def digest_of(data: bytes) -> str:
    """Of a trace file's content, whenever it was made; 64 hex digits. Raises TraceFileError."""
    return hashlib.sha256(file.to_bytes(replace(file.read(data), created=""))).hexdigest()
