"""Doctests are collected from every module; those on Triton import it, and it is not everywhere."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("triton") else ["megae/kernels/gpu*.py"]
