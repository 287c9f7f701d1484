"""This machine looked at: each line is fine, a warning, or a fault with its mend."""
