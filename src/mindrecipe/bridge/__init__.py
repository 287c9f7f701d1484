"""The two-way bridge to mindformers' native YAML: read, classify, raise to a recipe, keep what has no place, prove it equal."""
