"""A report of runs: its content (sheet), drawn (svg), as one page (page) or as text (plain)."""
