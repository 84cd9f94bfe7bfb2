"""Heliograph mirrors Kafka topics between data centres, exactly once, on Spark."""

__version__ = "0.1.0"
