"""The processes and services around the cores: workers, keepers, stores, a supervisor."""
