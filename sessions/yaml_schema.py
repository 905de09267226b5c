"""YAML files that fit a schema: every mistake in them, with its line and field.

The YAML is read with the core types of YAML 1.2 (so `no` is a word and `2026-01-02` is text), checked against a msgspec
Struct, and each mistake is looked up in the node tree to tell its line.
"""

from __future__ import annotations

import copy
import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import msgspec.inspect
import yaml

from sessions.errors import BadFile

T = TypeVar("T")
Key = str | int

# More mistakes than this in one file help nobody.
_MOST_MISTAKES = 50


class _CoreLoader(yaml.SafeLoader):
    """YAML 1.2 core types only. 1.1 would read `language: no` as false and `12:30` as 750."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 — PyYAML reads this class attribute by name


_CoreLoader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"^(?:null|~|)$"), ["n", "~", ""])
_CoreLoader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$"), ["t", "f"])
_CoreLoader.add_implicit_resolver(
    "tag:yaml.org,2002:int", re.compile(r"^[-+]?(?:0|[1-9][0-9]*)$"), list("-+0123456789")
)
_CoreLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:e[-+]?[0-9]+)?$"),
    list("-+0123456789."),
)


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file. data: dicts, lists and scalars · mistakes: what the YAML itself got wrong (repeated fields)."""

    path: str
    data: Any
    root: yaml.Node
    mistakes: tuple[BadFile, ...]

    def line(self, keys: tuple[Key, ...]) -> int:
        """The line (from 1) of the field that `keys` lead to, or of the nearest thing around it that exists."""
        node, line = self.root, _line(self.root)
        for key in keys:
            found = _child(node, key)
            if found is None:
                break
            line, node = found
        return line

    def mistake(self, keys: tuple[Key, ...], problem: str, mend: str = "") -> BadFile:
        return BadFile(self.path, problem, self.line(keys), field_name(keys), mend)


@dataclass(frozen=True, slots=True)
class Checked(Generic[T]):
    """value: the file as its Struct, with stand-ins in the place of mistakes · mistakes: in line order."""

    value: T | None
    mistakes: tuple[BadFile, ...]


def field_name(keys: tuple[Key, ...]) -> str:
    """("turns", 1, "audio") → "turns[1].audio"."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).lstrip(".")


def parse(path: str | Path) -> Document:
    """Read a YAML file. Raises `BadFile` if it cannot be read, or is no YAML (with the line)."""
    name = str(path)
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        at_line = error.object[: error.start].count(b"\n") + 1
        raise BadFile(name, "this is not UTF-8 text", at_line, mend="Save the file as UTF-8") from error
    except OSError as error:
        raise BadFile(name, f"cannot be read: {error.strerror}", mend="Check the path") from error
    try:
        loader = _CoreLoader(text)
        root = loader.get_single_node()
        if root is None:
            raise BadFile(name, "the file is empty", 1, mend="Start from a shipped script: duologue scripts list")
        mistakes = tuple(_key_mistakes(name, root, (), set()))
        return Document(name, loader.construct_document(root), root, mistakes)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else mark.line + 1
        raise BadFile(name, f"not YAML: {error.problem or error.context}", line, mend="Mend the line") from error
    except yaml.YAMLError as error:
        raise BadFile(name, f"not YAML: {str(error).splitlines()[0]}", mend="Mend the file") from error
    except (ValueError, AttributeError, RecursionError) as error:
        # PyYAML lets these through for values that do not fit their !!tag, and for absurdly deep nesting.
        raise BadFile(name, "a value in it cannot be read", mend="Write it without tags and deep nesting") from error


def check(
    document: Document, schema: type[T], *, stand_ins: Mapping[str, object], hints: Mapping[str, str]
) -> Checked[T]:
    """Fit `document` to `schema` and find every mistake, not only the first.

    stand_ins: for each required field a value that fits, put in place of a wrong one so that the check can go on.
    hints: field name → what it should look like, for fields whose rule is a pattern.
    """
    info = msgspec.inspect.type_info(schema)
    data = copy.deepcopy(document.data)
    mistakes = list(document.mistakes)
    value: T | None = None
    while value is None and len(mistakes) < _MOST_MISTAKES:
        try:
            value = msgspec.convert(data, schema, strict=True)
        except msgspec.ValidationError as error:
            message, keys = _split(str(error))
            mistakes.append(_explain(document, info, message, keys, hints))
            if not _repair(data, message, keys, stand_ins):
                break
    return Checked(value, tuple(sorted(mistakes, key=lambda mistake: mistake.line or 0)))


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _child(node: yaml.Node, key: Key) -> tuple[int, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        # Of a repeated field the last one holds, as in the data.
        for key_node, value_node in reversed(node.value):
            if key_node.value == key:
                return _line(key_node), value_node
    if isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
        return _line(node.value[key]), node.value[key]
    return None


def _key_mistakes(path: str, node: yaml.Node, keys: tuple[Key, ...], seen: set[int]) -> list[BadFile]:
    """Repeated fields (YAML would silently keep the last) and keys that are not text, in the whole tree.

    seen: nodes already walked; an alias leads to the same node again, perhaps without end.
    """
    found: list[BadFile] = []
    if id(node) in seen:
        return found
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            found += _key_mistakes(path, item, (*keys, index), seen)
    if isinstance(node, yaml.MappingNode):
        first_lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            line = _line(key_node)
            if key_node.tag != "tag:yaml.org,2002:str":
                raise BadFile(path, "a field's name must be a word", line, field_name(keys), "Put it in quotes")
            name = str(key_node.value)
            if name in first_lines:
                problem = f"given twice (first in line {first_lines[name]})"
                found.append(BadFile(path, problem, line, field_name((*keys, name)), "Keep one of them"))
            first_lines.setdefault(name, line)
            found += _key_mistakes(path, value_node, (*keys, name), seen)
    return found


def _split(error: str) -> tuple[str, tuple[Key, ...]]:
    """msgspec's "MESSAGE - at `$.turns[1].start`" → (MESSAGE, ("turns", 1, "start"))."""
    message, _, where = error.partition(" - at `$")
    keys = tuple(int(index) if index else name for name, index in re.findall(r"\.([^.\[\]`]+)|\[(\d+)\]", where))
    return message, keys


def _explain(
    document: Document, info: msgspec.inspect.Type, message: str, keys: tuple[Key, ...], hints: Mapping[str, str]
) -> BadFile:
    """msgspec's message in the words of the file's author, with the mend."""
    quoted = re.findall(r"[`'](.*?)[`']", message)
    if message.startswith("Object contains unknown field"):
        known = _known_fields(info, keys)
        near = difflib.get_close_matches(quoted[0], known, n=1, cutoff=0.5)
        hint = f"Did you mean {near[0]!r}? " if near else ""
        return document.mistake((*keys, quoted[0]), "there is no such field", f"{hint}Known: {', '.join(known)}")
    if message.startswith("Object missing required field"):
        return document.mistake((*keys, quoted[0]), "this field is missing", hints.get(quoted[0], ""))
    hint = hints.get(next((key for key in reversed(keys) if isinstance(key, str)), ""), "")
    if message.startswith("Invalid enum value"):
        return document.mistake(keys, f"{quoted[0]!r} is not known", hint)
    return document.mistake(keys, _in_plain_words(message), hint)


def _in_plain_words(message: str) -> str:
    if "matching regex" in message:
        return "does not have the form that it should"
    words = {
        "object | null": "a set of fields",
        "object": "a set of fields",
        "array": "a list",
        "str": "text",
        "int": "a whole number",
        "int | null": "a whole number",
        "str | null": "text",
        "int | float": "a number",
        "float | int": "a number",
    }
    words |= {"null": "nothing", "bool": "true or false", "float": "a number with a fraction"}
    message = re.sub(r"`(.*?)`", lambda found: words.get(found[1], found[1]), message)
    return message.replace("Expected", "should be").replace(", got", ", but is")


def _known_fields(info: msgspec.inspect.Type, keys: tuple[Key, ...]) -> list[str]:
    """The fields that the Struct at `keys` knows."""
    for key in keys:
        info = _struct_or_list(info)
        if isinstance(info, msgspec.inspect.StructType):
            info = next(field.type for field in info.fields if field.encode_name == key)
        elif isinstance(info, msgspec.inspect.VarTupleType | msgspec.inspect.ListType):
            info = info.item_type
    info = _struct_or_list(info)
    return [field.encode_name for field in info.fields] if isinstance(info, msgspec.inspect.StructType) else []


def _struct_or_list(info: msgspec.inspect.Type) -> msgspec.inspect.Type:
    while isinstance(info, msgspec.inspect.Metadata):
        info = info.type
    if isinstance(info, msgspec.inspect.UnionType):
        return next(_struct_or_list(one) for one in info.types if not isinstance(one, msgspec.inspect.NoneType))
    return info


def _repair(data: Any, message: str, keys: tuple[Key, ...], stand_ins: Mapping[str, object]) -> bool:
    """Take the mistake out of `data`. False if it cannot be (the whole file has the wrong shape)."""
    named = re.search(r"^Object (?:contains unknown|missing required) field `(.*)`", message)
    if named:
        keys = (*keys, named[1])
    if not keys:
        return False
    *path, last = keys
    parent, around = data, ""
    for key in path:
        parent, around = parent[key], key if isinstance(key, str) else around
    if isinstance(last, int):
        whole = stand_ins[around]
        parent[last] = copy.deepcopy(whole[0] if isinstance(whole, list) else whole)
    elif last in stand_ins and not message.startswith("Object contains unknown"):
        parent[last] = copy.deepcopy(stand_ins[last])
    else:
        parent.pop(last, None)
    return True
