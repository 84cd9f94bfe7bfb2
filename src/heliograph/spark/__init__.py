"""The data pipeline on Spark: the only home of PySpark."""
