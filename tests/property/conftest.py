"""Property tests never judge a time: the first example may compile a kernel.

Sixty examples a run, and other ones in each: what is left to find, many runs find.
"""

from hypothesis import settings

settings.register_profile("penstock", deadline=None, max_examples=60)
settings.load_profile("penstock")
