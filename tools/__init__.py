"""Checks and scripts of the repository itself. Nothing here is shipped or imported by Penstock."""
