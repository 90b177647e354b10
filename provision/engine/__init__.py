"""The loop: observe, decide, act, observe again; for one node (reconcile) and for many (fleet)."""
