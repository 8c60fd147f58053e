"""Measures the engine beside the plain diffusers pipeline."""
