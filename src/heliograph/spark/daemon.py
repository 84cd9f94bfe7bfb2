"""The process from which Spark forks the workers of tasks: what they need is in memory already.

A worker that took the place of one that died copies 0.3 s earlier, and workers share the memory of
their modules. Nothing that is imported here may start a thread: a fork would lose it.
"""

import gc

from pyspark.daemon import manager

import heliograph.copy.lease
import heliograph.spark.mirror  # noqa: F401

if __name__ == "__main__":
    gc.freeze()
    manager()
