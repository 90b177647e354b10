"""Bare-metal provisioning for GPU clusters: observe, decide, act, observe again."""

__version__ = "0.1.0"
