"""What this process is set to before it talks to hundreds of machines at once."""

from __future__ import annotations

import gc
from asyncio import sslproto

# A TLS record is at most 16 KiB. asyncio gives every connection a buffer of 256 KiB from the start: with two of them to
# each of 512 BMCs that alone is 256 MB (Python 3.11; measured with 256 BMCs: 271 MB, and 160 MB with small buffers).
TLS_BUFFER = 16 * 1024


def ready_for_many_connections() -> None:
    """Smaller TLS buffers, and a garbage collector that looks less often.

    So many small objects live at once that the collector walks them again and again and finds nothing: a fifth of all
    processor time with 128 BMCs.
    """
    sslproto.SSLProtocol.max_size = TLS_BUFFER
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
