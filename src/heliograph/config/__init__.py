"""The settings of heliograph.yaml: what there is, and how a file becomes it."""
