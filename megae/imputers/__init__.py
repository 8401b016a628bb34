"""One class per method, one interface."""
