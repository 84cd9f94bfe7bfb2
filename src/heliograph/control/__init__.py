"""Driver side: what a link is told, what it is seen to do, and who decides in between."""
