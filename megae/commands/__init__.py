"""One command of ``megae`` per file."""
