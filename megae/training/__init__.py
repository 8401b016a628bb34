"""Hiding, loop, early stop, checkpoints."""
