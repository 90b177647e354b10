"""What a process is set to before it talks to hundreds of machines at once; where connections are made it is known."""

from provision.adapters.redfish.process import TLS_BUFFER, ready_for_many_connections

__all__ = ["TLS_BUFFER", "ready_for_many_connections"]
