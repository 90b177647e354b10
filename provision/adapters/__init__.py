"""Thin adapters: each room speaks to one kind of peer and turns its answers into the model's values."""
