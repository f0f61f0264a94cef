"""Tests of output to Iceberg."""
