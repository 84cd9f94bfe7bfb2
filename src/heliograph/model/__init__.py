"""Pure values and decisions: no I/O, clock, threads or logging."""
