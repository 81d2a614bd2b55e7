"""Every kernel that an experiment may name: the catalog's, the museum's broken ones, their peers. Imports neither torch nor triton."""

from __future__ import annotations

from collections.abc import Mapping

from kernels.catalog import CATALOG, Kernel
from kernels.museum import EXHIBITS
from kernels.peers import PEERS

KERNELS: Mapping[str, Kernel] = {
    **CATALOG,
    **{exhibit.kernel.name: exhibit.kernel for exhibit in EXHIBITS.values()},
    **PEERS,
}
"""By name."""
