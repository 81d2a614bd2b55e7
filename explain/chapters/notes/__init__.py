"""The lecturer's notes, a page for a second window."""
