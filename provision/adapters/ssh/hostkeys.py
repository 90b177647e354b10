"""Host keys as text: ``ssh-ed25519 AAAA…`` is what is pinned, ``SHA256:…`` what people compare."""

from __future__ import annotations

import base64
import binascii
import hashlib

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from provision.model.secret import Secret

# One pinned key type may be signed for in several ways (RFC 8332).
_SIGNED_AS = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}


def new_key() -> tuple[Secret, str]:
    """An ed25519 host key: the private half in OpenSSH's format, the public half as one line without comment."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode("ascii")
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode("ascii")
    return Secret(private), public


def fingerprint(public: str) -> str:
    """``SHA256:…`` of a public key line, as ``ssh-keygen -l`` prints it; the line itself if it is not one."""
    try:
        blob = base64.b64decode(public.split()[1], validate=True)
    except (IndexError, binascii.Error, ValueError):
        return repr(public[:60])
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode("ascii").rstrip("=")


def signature_types(public: str) -> tuple[str, ...]:
    """Which host key algorithms to ask for, so that the host shows the pinned key and not another one of its own."""
    kind = public.split(maxsplit=1)[0] if public.split() else ""
    return _SIGNED_AS.get(kind, (kind,))


def same_key(one: str, other: str) -> bool:
    """True if both lines are the same key, whatever their comments."""
    return one.split()[:2] == other.split()[:2]
