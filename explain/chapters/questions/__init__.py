"""What people ask, and the screen that answers."""
