"""Words typed by people."""
