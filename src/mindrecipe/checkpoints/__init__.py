"""Checkpoints on disk, read without mindspore: what is there, whether it is whole, the step it is of, what it holds."""
