"""The only speaker of the Kafka protocol."""
