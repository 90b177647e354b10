"""Migrations of the store, run from code by provision.store.opening."""
