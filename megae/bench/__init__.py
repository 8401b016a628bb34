"""Honest comparisons of imputation methods.

Data
    :mod:`megae.bench.catalogue` reads ``experiments/*.json``, the paper's tables and figures: datasets, mechanisms,
    rates and rows of each, what the paper prints, and what is doubtful about it.
"""
