"""Measurements, each a command that writes its record under ``benchmarks/results``."""
