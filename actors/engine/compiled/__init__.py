"""Faster forward passes: compiled, replayed from CUDA graphs, and how many rows are worth a pass."""
