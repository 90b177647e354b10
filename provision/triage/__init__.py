"""Triage: evidence in, verdicts and moves of the ticket desk out. Pure: no clock, no IO, no logging."""
