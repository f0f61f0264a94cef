"""What virtual tables of files have in common."""


class Unreadable(Exception):
    """A reader of the table does not get what it should. The text says why."""
