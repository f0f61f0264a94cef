"""Small models whose states are searched, not drawn."""
