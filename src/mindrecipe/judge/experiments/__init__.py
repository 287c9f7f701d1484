"""Experiments: many small trainings, each a process of its own, gathered in a table that can be taken up again."""
