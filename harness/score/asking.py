"""From the words of the command line to metrics with their options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from harness.score.engine import Chosen, chosen_with_needs
from harness.score.here import missing
from harness.score.table import METRICS, metric
from sessions.errors import SetupError

ALL = "all"
AS_PUBLISHED = "as-published"
"""What the choice of an option is called that does as the reference implementation does."""

Options = dict[str, dict[str, str]]
"""By metric, those that were given."""


@dataclass(frozen=True, slots=True)
class Asked:
    """chosen: with all that they need, in order · left_out: metric → why, of those that nobody named."""

    chosen: tuple[Chosen, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)


def asked(
    names: Sequence[str], given: Options, *, everywhere: Mapping[str, str] | None = None, as_published: bool = False
) -> Asked:
    """What `--metrics` says: names divided by commas, `all`, or nothing for those that can be had now.

    given: by metric; one for a metric that is not named, nor needed, is a mistake · everywhere: options of every metric
    that has them, and at least one must. Raises `SetupError`, also where nothing is left to score by.
    """
    wanted = [name.strip() for value in names for name in value.split(",") if name.strip()]
    named = [each.name for each in chosen_with_needs(name for name in wanted if name != ALL)]
    known = dict.fromkeys([*METRICS, *named, *given])
    options = {name: {**_of(name, everywhere or {}), **given.get(name, {})} for name in known}
    left_out: dict[str, str] = {}
    if not wanted:
        left_out = {name: why for name in shown() if (why := missing(name, options))}
        wanted = [name for name in shown() if name not in left_out]
        if not wanted:
            name, why = next(iter(left_out.items()), ("any metric", "there is none"))
            raise SetupError(
                f"no metric can be had here: {name}: {why}", "`duologue score --list` says what each needs"
            )
    elif ALL in wanted:
        wanted = shown()
    else:
        for name in wanted:
            if metric(name).hidden:
                raise SetupError(f"{name} is a part of other metrics", f"Choose from: {', '.join(shown())}")
            missing(name, options)  # a mistake in an option is told before anything is scored
    needed = [each.name for each in chosen_with_needs(dict.fromkeys(wanted))]
    for option in everywhere or {}:
        if not any(option in options[name] for name in needed):
            raise _no_option(option, options, left_out)
    if as_published:
        _as_published(needed, options)
    said = {name: values for name, values in options.items() if values and (name in needed or name in given)}
    return Asked(chosen_with_needs(dict.fromkeys(wanted), said), left_out)


def _no_option(option: str, options: Options, left_out: Mapping[str, str]) -> SetupError:
    """What was chosen by the option may be why the metrics that have it cannot be had, and then that is told."""
    for name, why in left_out.items():
        if any(option in options[each.name] for each in chosen_with_needs([name])):
            return SetupError(f"nothing can be scored with --{option}: {name}: {why.rstrip('.')}")
    return SetupError(f"none of these metrics has an option {option}", f"Leave --{option} out")


def _of(name: str, values: Mapping[str, str]) -> dict[str, str]:
    """Those that the metric has."""
    return {option.name: values[option.name] for option in metric(name).options if option.name in values}


def shown() -> list[str]:
    """Every metric that is no mere part of others, in the order of the table."""
    return [name for name in METRICS if not metric(name).hidden]


def given_options(settings: Iterable[str]) -> Options:
    """From `metric.option=value`. Raises `SetupError` for what is not of that form, and for an address that carries a
    secret."""
    made: Options = {}
    for setting in settings:
        target, equals, value = setting.partition("=")
        name, dot, option = target.partition(".")
        if not equals or not dot:
            raise SetupError(f"--set {setting}: not metric.option=value", "For example --set asr_wer.normaliser=none")
        made.setdefault(name, {})[option] = value
    for name, options in made.items():
        for option, value in options.items():
            _refuse_secrets(f"{name}.{option}", value)
    return made


def _refuse_secrets(what: str, value: str) -> None:
    """What a score was made with is written beside it."""
    if "://" in value:
        try:
            parts = urlsplit(value)
        except ValueError:  # it may hold a secret all the same, so it is not shown
            raise SetupError(f"the address in {what} is none", "Give one like https://host/v1") from None
        if parts.username or parts.password or parts.query:
            raise SetupError(
                f"the address in {what} holds a user name, a key or a query, which would be written down",
                "Give the bare address, and the name of the environment variable that holds the key",
            )


def _as_published(names: Iterable[str], options: Options) -> None:
    """Set every option that has such a choice, of these metrics, where nothing was given."""
    took = False
    for name in names:
        for option in metric(name).options:
            if AS_PUBLISHED in option.choices:
                took = True
                options[name].setdefault(option.name, AS_PUBLISHED)
    if not took:
        raise SetupError("none of these metrics has an as-published form", "Leave --as-published out")
