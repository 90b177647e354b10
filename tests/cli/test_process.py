"""A command keeps its memory small before it opens its first connection."""

from __future__ import annotations

import asyncio
import gc
import ssl
import subprocess
import sys

CHILD = """
import asyncio, gc, ssl
from provision.app.process import TLS_BUFFER, ready_for_many_connections

ready_for_many_connections()
loop = asyncio.new_event_loop()
made = asyncio.sslproto.SSLProtocol(loop, None, ssl.create_default_context(), None, server_hostname="x")
view = made.get_buffer(-1)
print(len(view), TLS_BUFFER, gc.get_threshold()[0])
loop.close()
"""


def test_every_tls_connection_gets_a_buffer_of_one_record() -> None:
    """In a process of its own, for it is a setting of the process. asyncio's own buffer is sixteen times as large."""
    answer = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=True, timeout=60)
    size, wanted, threshold = map(int, answer.stdout.split())
    assert size == wanted == 16 * 1024
    assert threshold > gc.get_threshold()[0]
    loop = asyncio.new_event_loop()
    try:
        usual = asyncio.sslproto.SSLProtocol(loop, None, ssl.create_default_context(), None, server_hostname="x")
        assert len(usual.get_buffer(-1)) > size
    finally:
        loop.close()
