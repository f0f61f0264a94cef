"""Tests of output to Delta Lake."""
