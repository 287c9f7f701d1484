"""Composition: the schema, Hydra, overrides, and where every value was written."""
