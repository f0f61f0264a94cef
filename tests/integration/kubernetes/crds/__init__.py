"""The custom resources, in a real API server."""
