"""A resumed run follows its own plan."""

from __future__ import annotations

import click
from click.core import ParameterSource

from sessions.errors import SetupError


def refuse_changes(may_come: frozenset[str]) -> None:
    """Refuse every option of the command that was given beside --resume and would silently be left out.

    may_come: the parameters that a resumed run may be given. Raises `SetupError` with the first that may not.
    """
    context = click.get_current_context()
    for parameter in context.command.params:
        name = parameter.name or ""
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if given and isinstance(parameter, click.Option) and name not in may_come | {"resume", "as_json"}:
            option = parameter.opts[0]
            raise SetupError(
                f"{option} cannot change a run that is resumed; it follows its own plan", f"Leave {option} out"
            )
