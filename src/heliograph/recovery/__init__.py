"""Recovery verbs: step by step, each on record before and after."""
