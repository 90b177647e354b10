"""The stages of a bring-up. ``BRING_UP`` holds them in order."""
