"""MirrorMaker's files in, a heliograph.yaml out. Pure: nothing here reads a file or a cluster."""
