"""A lecture that is being held: its address, and the secret by which it knows its phones and its lecturer again.

Both stay when the app is started again, and they are the same in all processes of a hall.
"""

from __future__ import annotations

import hmac
import os
import secrets
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from explain.engine import cache_folder

KEPT_S = 12 * 3600.0
"""How long a lecture's secret, and a question without new answers, are kept."""
HALL, HALL_KEY = "TILESCOPE_HALL", "TILESCOPE_HALL_KEY"
"""Variables that a hall gives its processes: its address, and the secret that they share."""


@dataclass(frozen=True)
class Lecture:
    """Where a lecture is held: the address that phones open, the folder that it is kept in, its secret. `has_desk`: who
    sits at the server is its lecturer; behind a proxy nobody seems to sit elsewhere.
    """

    address: str
    folder: Path
    key: bytes
    has_desk: bool = True

    @classmethod
    def at(cls, address: str, key: bytes | None = None) -> Lecture:
        """The lecture at an address such as http://192.168.1.2:8501; the same after a restart. A hall gives its `key`
        to its processes.
        """
        folder = _own(cache_folder().parent / "lectures", address)
        return cls(address, folder, key or key_of(folder), has_desk=key is None)

    @classmethod
    def in_hall(cls) -> Lecture | None:
        """The lecture of the hall that this process belongs to; None outside one."""
        address = os.environ.get(HALL)
        return cls.at(address, bytes.fromhex(os.environ[HALL_KEY])) if address else None

    def signed(self, use: str, name: str) -> str:
        """The name with a signature that only this lecture makes."""
        return f"{name}.{hmac.digest(self.key, f'{use} {name}'.encode(), 'sha256').hex()[:32]}"

    def is_signed(self, use: str, given: str) -> bool:
        """Whether this lecture has signed it."""
        return hmac.compare_digest(self.signed(use, given.partition(".")[0]).encode(), given.encode())

    @property
    def lecturers_link(self) -> str:
        """What a lecturer opens once in the browser that asks."""
        return f"{self.address}/lecturer?key={self.signed('lecturer', 'key')}"


def _own(folder: Path, name: str) -> Path:
    """The folder below `folder` of the lecture at `name`, an address; those of older lectures are removed."""
    own = folder / "".join(letter if letter.isalnum() else "-" for letter in name)
    for other in folder.glob("*/"):
        with suppress(OSError):
            if other != own and time.time() - max((one.stat().st_mtime for one in other.iterdir()), default=0) > KEPT_S:
                shutil.rmtree(other)
    return own


def key_of(folder: Path) -> bytes:
    """A lecture's secret, 32 bytes: the same when the app is started again within half a day, so that those who came
    in does not have to come in again. Where nothing can be kept it is another one each time.
    """
    kept, key = folder / "key", secrets.token_bytes(32)
    with suppress(OSError):
        if time.time() - kept.stat().st_mtime < KEPT_S and len(old := kept.read_bytes()) == len(key):
            return old
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        beside = kept.with_name(f"key.{os.getpid()}")
        beside.unlink(missing_ok=True)
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(key)
        beside.replace(kept)
    return key
