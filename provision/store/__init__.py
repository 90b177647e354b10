"""The store: wishes, attempts, events, evidence, leases, tickets and pins. It never says what *is*."""
