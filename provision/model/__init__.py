"""The nouns. Frozen values, standard library only; they know nothing of peers, stores or screens."""
