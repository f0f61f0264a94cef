"""Property tests never judge a time: the first example may compile a kernel."""

from hypothesis import settings

settings.register_profile("penstock", deadline=None)
settings.load_profile("penstock")
