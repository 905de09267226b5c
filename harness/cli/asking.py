"""From the options of `duologue measure` to what is asked: scripts, settings, and the secrets that no plan holds."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sessions.errors import SetupError
from sessions.secrets import Secrets

if TYPE_CHECKING:
    from harness.runs.planning import Ask
    from sessions.runs import RunFolder
    from sessions.scripts import Script

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def secrets_of(secrets: Secrets, headers: tuple[str, ...], api_key_env: str) -> tuple[dict[str, str], str]:
    """Headers and key, which from here on are masked everywhere. Raises `SetupError`."""
    parsed = {}
    for header in headers:
        name, colon, value = header.partition(":")
        if not colon or not name.strip():
            raise SetupError("a --header without a colon", "Give it as --header 'Name: value'")
        if not _HEADER_NAME.fullmatch(name.strip()) or not value.strip().isprintable():
            raise SetupError(
                f"--header {name.strip()!r} cannot be sent", "Name: letters, digits and -; value: one line"
            )
        parsed[name.strip()] = value.strip()
        secrets.add(value.strip())
    if not api_key_env:
        return parsed, ""
    key = os.environ.get(api_key_env, "").strip()
    if not key.isprintable():
        raise SetupError(
            f"the key in {api_key_env} has line breaks or control characters in it", "Set it to the key alone"
        )
    if not key:
        raise SetupError(f"the environment variable {api_key_env} is not set", f"Set it: export {api_key_env}=…")
    secrets.add(key)
    return parsed, key


def ask_of(
    target: str | None, headers: dict[str, str], options: dict[str, Any], scripts: list[Script] | None = None
) -> Ask:
    """What is measured, loads aside. scripts: what is said; None: as the options have it. Raises `SetupError`."""
    from harness.runs.planning import Ask
    from sessions.runs import Limits

    if target is None:
        raise SetupError("no target", "Give the server's address, for example ws://127.0.0.1:8765")
    return Ask(
        target=target,
        scripts=_scripts(options) if scripts is None else scripts,
        protocol=options["protocol"],
        repeat=options["repeat"],
        warmup=options["warmup"],
        turn_detection=options["turn_detection"],
        server_vad=_vad(options["vad"], options["turn_detection"]),
        voice=options["voice"],
        transcribe=options["transcribe"],
        headers=headers,
        api_key_env=options["api_key_env"],
        reflector=_reflector(options["reflector"]),
        limits=Limits(
            lateness_ms=options["limit_lateness"],
            connect_s=options["limit_connect"],
            reply_s=options["limit_reply"],
            idle_s=options["limit_idle"],
            bytes_per_dialogue=options["limit_bytes"],
        ),
    )


def _scripts(options: dict[str, Any]) -> list[Script]:
    from harness.cli.perturb_option import perturb_scripts
    from harness.speech_end_error.methods import finder
    from harness.spoken import speaker
    from sessions.scripts import load_script, script_from_audio

    if bool(options["scripts"]) == bool(options["audio"]):
        raise SetupError("nothing to say, or two ways to say it", "Give either --script (repeatable) or --audio")
    find_end = finder(options["speech_end"])
    speak = speaker()
    scripts = [load_script(name, find_end=find_end, speak=speak) for name in options["scripts"]] or [
        script_from_audio(options["audio"], find_end=find_end)
    ]
    return perturb_scripts(scripts, options["perturb"], options["perturb_seed"])


def _reflector(address: str) -> str:
    from clients.wire.reflector import reflector_url

    return reflector_url(address) if address else ""


def _vad(settings: tuple[str, ...], turn_detection: str) -> dict[str, float]:
    if settings and turn_detection != "server_vad":
        raise SetupError("--vad goes with --turn-detection server_vad", "Add it, or leave --vad out")
    parsed = {}
    for setting in settings:
        name, _, value = setting.partition("=")
        try:
            parsed[name] = float(value) if "." in value else int(value)
        except ValueError as error:
            raise SetupError(f"--vad {setting}: not a number", "For example --vad silence_duration_ms=300") from error
    return parsed


def dialled(protocol: str, target: str) -> str:
    """The address that a client of `protocol` would connect to."""
    from clients.dialect import CLIENTS
    from sessions.tables import load

    return str(load(CLIENTS, protocol, "protocol").url(target))


def resumed(secrets: Secrets, folder: Path, target: str | None) -> tuple[RunFolder, str]:
    """The run in `folder` and its full address, which may have to be given again. Raises `SetupError`."""
    from sessions.runs import RunFolder

    run = RunFolder.open(folder)
    if run.plan.microphone is not None:
        raise SetupError(
            f"the run {folder} is a conversation with a person, which is over",
            f"Say it again, to any server: duologue replay {folder} --against TARGET",
        )
    if target is not None and secrets.mask_url(dialled(run.plan.protocol, target)) != run.plan.target:
        raise SetupError(f"the run {folder} measures {run.plan.target}", "Resume it without a target, or with that one")
    if target is None and "***" in run.plan.target:
        raise SetupError("the run's address held a secret, which is not written down", "Give the target again")
    return run, target or run.plan.target
