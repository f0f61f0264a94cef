"""Small worlds whose states are searched, not drawn."""
