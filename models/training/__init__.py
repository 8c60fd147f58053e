"""Trains and evaluates the small scenes model, from nothing or onwards from an export."""
