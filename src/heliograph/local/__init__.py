"""Real local Kafka clusters, for trying and testing."""
