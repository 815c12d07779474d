"""The one error that a person is meant to read."""

import click


class UserError(click.ClickException):
    """Something the user can mend: says what is wrong, where, and what to do.

    Exit status 2, so that `make load` can tell it from a failed verdict (1).
    """

    exit_code = 2
