"""How kernels are compiled: `kernel` is Numba's ``njit`` as all of them use it.

Numba keeps compiled code next to the source and compiles again when *that file* changes, though a kernel also contains
what it calls in other files.  `kernel` therefore stamps the code with a digest of every source of this package and its
sub-packages: one changed line in any of them (after an upgrade, say) retires all the compiled code.
"""

from __future__ import annotations

import hashlib
import logging
from functools import cache
from multiprocessing import parent_process
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numba import njit

if TYPE_CHECKING:
    from collections.abc import Callable


def _digest_of_sources() -> str:
    digest = hashlib.blake2b(digest_size=16)
    for source in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()


SOURCES = _digest_of_sources()


WITHOUT_CACHE = (
    "there is no place to keep compiled code, so each process compiles it anew, which takes it some seconds: let "
    "NUMBA_CACHE_DIR name a folder that it may write"
)


@cache
def do_without_cache() -> None:
    """Say once that nothing is kept; workers of this process leave it to it."""
    if parent_process() is None:
        logging.getLogger("overstory.kernels").warning(WITHOUT_CACHE)


def kernel(function: Callable[..., Any]) -> Any:
    """Compile on first call, without the interpreter's lock, and keep the code for the next process where it can be."""
    try:
        dispatcher = njit(nogil=True, cache=True)(function)
    except RuntimeError:  # Numba finds no folder that it may write: a read-only container, an account without a home
        do_without_cache()
        return njit(nogil=True)(function)
    # Numba compares this stamp with the one it stored: the file's own, and ours over all sources.
    cache_file = getattr(dispatcher._cache, "_cache_file", None)  # noqa: SLF001  # absent where nothing can be written
    if cache_file is not None:
        cache_file._source_stamp = (cache_file._source_stamp, SOURCES)  # noqa: SLF001
    return dispatcher
