"""A lecturer's own tour."""
