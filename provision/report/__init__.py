"""Sinks of the event stream and of tickets: screens, JSON lines, CSV. They read the model and nothing else."""
