"""A link as those see it who drive it and those who recover it: its ends, its books, its helm."""
