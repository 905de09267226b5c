"""The command line. Commands load when used, so that `duologue --help` imports nothing heavy."""

from __future__ import annotations

import contextlib
import errno
import importlib
import io
import os
import sys
import traceback

import click

from harness import exits
from sessions.errors import DuologueError
from sessions.secrets import Secrets

COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("harness.cli.demo:demo", "On this machine alone, no key: start a server, measure it."),
    "measure": ("harness.cli.measure:measure", "Measure a live server over whole spoken dialogues."),
    "talk": ("harness.cli.talk:talk", "Hold scripted dialogues in full duplex: barge-in, pauses, noise."),
    "replay": ("harness.cli.replay:replay", "Say a recorded run again to a server, and compare."),
    "calibrate": ("harness.cli.calibrate:calibrate", "How true figures are on this machine."),
    "serve": ("harness.cli.serve:serve", "Serve the embedded cascade, the metronome or a recording."),
    "score": ("harness.cli.score:score", "Score replies: speech quality, speech against text, voice."),
    "report": ("harness.cli.report:report", "Rebuild summary and report.html of a run."),
    "check": ("harness.cli.check:check", "Is a run's record whole and its figures true to it?"),
    "rescore": ("harness.cli.rescore:rescore", "Compute every measure of a run anew, from its record."),
    "merge": ("harness.cli.merge:merge", "Put the shards of several hosts together to one run."),
    "analyze": ("harness.cli.analyze:analyze", "Turn-taking from recordings alone."),
    "compare": ("harness.cli.compare:compare", "Compare two runs: differences with intervals."),
    "gate": ("harness.cli.gate:gate", "Hold a run to objectives and a baseline, for CI."),
    "export": ("harness.cli.export:export", "A run as CSV, Parquet, Audacity or ELAN labels, LaTeX."),
    "case": ("harness.cli.case:case", "Pack one turn for a bug report to a vendor."),
    "scripts": ("harness.cli.scripts:scripts", "List, show and check session scripts."),
    "weights": ("harness.cli.weights:weights", "List, fetch and verify model weights."),
}
"""Name → (where it is, one line of help)."""


class LazyGroup(click.Group):
    """Knows its commands by name and line; imports one when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands alone: all of it fits a screen."""
        with formatter.section(f"Commands ({ctx.command_path} COMMAND --help explains each; --version)"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            message = f"{error.message.rstrip('.')}.{hint} Known: {', '.join(COMMANDS)}."
            raise click.UsageError(message, ctx) from error


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        import importlib.metadata

        click.echo(f"duologue {importlib.metadata.version('duologue')}")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Show it.")
def cli() -> None:
    """
    \b
    Measure how a speech-to-speech system holds a conversation, on one clock.
    Example: duologue measure ws://127.0.0.1:8765 --script facts --repeat 10
    """


def _say(problem: str) -> None:
    """One line, whatever a server or a file name brought into it."""
    from harness.report.wording import one_line

    click.echo(f"duologue: {one_line(problem)}", err=True)


def _open_streams() -> None:
    """A closed standard stream becomes /dev/null, or the next file opened would get its number and our messages.

    What the terminal's character set lacks is shown as "?".
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            if descriptor != number:
                os.dup2(descriptor, number)
                os.close(descriptor)
            if number:  # `sys.stdin` stays None: who reads it must know that it is not there
                setattr(sys, name, open(number, "w", closefd=False))  # noqa: SIM115 - for good
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _tell_bug(error: Exception, secrets: Secrets) -> int:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        with contextlib.suppress(OSError):
            _say(f"no space left to write {error.filename or 'standard output'}. Finished dialogues are kept.")
        return exits.SETUP
    click.echo(secrets.mask(traceback.format_exc()), err=True)
    click.echo("duologue: this is a bug; the lines above say where. Finished dialogues are kept.", err=True)
    return exits.BUG


def main(arguments: list[str] | None = None) -> None:
    """Run and exit: 0 done · 1 nothing could be measured · 2 set-up error · 70 a bug · 130 interrupted."""
    secrets = Secrets()
    _open_streams()
    try:
        result = cli.main(args=arguments, standalone_mode=False, obj=secrets)
        code = result if isinstance(result, int) else 0
    except click.exceptions.Exit as done:
        code = done.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        code = exits.SETUP
    except click.ClickException as error:
        _say(secrets.mask(error.format_message()))
        code = exits.SETUP
    except DuologueError as error:
        _say(secrets.mask(str(error)))
        code = exits.SETUP
    except (click.Abort, KeyboardInterrupt):
        click.echo("duologue: interrupted", err=True)
        code = exits.INTERRUPTED
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = 0
    except Exception as error:  # noqa: BLE001 - the last line of defence: whatever it is, no secret may be in its traceback
        code = _tell_bug(error, secrets)
    sys.exit(code)
