"""The processes and services around the core: workers, keepers, stores, a supervisor."""
