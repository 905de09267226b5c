"""The house itself: floors, size budgets, dependencies, what a cold start imports."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("harness", "clients", "servers", "metrics", "sessions")
ALLOWED = {
    "sessions": set(),
    "clients": {"sessions"},
    "metrics": {"sessions"},
    "servers": {"clients", "sessions"},
    "harness": {"clients", "metrics", "servers", "sessions"},
}
FOLDERS = (*PACKAGES, "tests", "benchmarks", "tools")
FILES = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
CORE_LIMIT = 30


def _imports(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports here are absolute"
            names.add((node.module or "").partition(".")[0])
    return names


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_go_down_only(package: str) -> None:
    allowed = ALLOWED[package] | {package}
    for path in sorted((ROOT / package).rglob("*.py")):
        wrong = _imports(path) & (set(PACKAGES) | {"tests", "benchmarks", "tools"}) - allowed
        assert not wrong, f"{path.relative_to(ROOT)} imports {sorted(wrong)}"


def test_the_packages_are_ours() -> None:
    owners = importlib.metadata.packages_distributions()
    for package in PACKAGES:
        spec = __import__(package)
        assert Path(spec.__file__ or "").resolve().is_relative_to(ROOT)
        assert set(owners.get(package, ["duologue"])) == {"duologue"}, "another distribution brings this name too"


def _body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    body = [node for node in function.body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def test_size_budgets() -> None:
    bodies, lengths = [], []
    for path in FILES:
        text = path.read_text()
        lengths.append(text.count("\n"))
        assert lengths[-1] <= 600, f"{path.relative_to(ROOT)} has {lengths[-1]} lines"
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                bodies.append(_body_lines(node))
                assert bodies[-1] <= 80, f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {bodies[-1]} lines"
    assert sorted(bodies)[int(len(bodies) * 0.95)] <= 40
    assert sorted(lengths)[int(len(lengths) * 0.95)] <= 450


def test_the_client_install_is_small() -> None:
    """What `pip install duologue` brings, counted through the installed packages' own requirements."""
    seen: set[str] = set()
    waiting = ["duologue"]
    while waiting:
        name = _canonical(waiting.pop())
        if name in seen:
            continue
        seen.add(name)
        for requirement in importlib.metadata.requires(name) or []:
            if _applies(requirement):
                waiting.append(re.split(r"[\s;<>=!~\[(]", requirement, maxsplit=1)[0])
    assert len(seen) - 1 <= CORE_LIMIT, sorted(seen)
    assert not seen & {"torch", "transformers", "scipy", "onnxruntime", "matplotlib"}


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _applies(requirement: str) -> bool:
    from packaging.requirements import Requirement

    parsed = Requirement(requirement)
    return parsed.marker is None or parsed.marker.evaluate({"extra": ""})


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom harness.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print(*sorted(sys.modules), file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = set(ran.stderr.split())
    assert not loaded & {"numpy", "aiohttp", "websockets", "asyncio", "soundfile", "torch", "onnxruntime", "rich"}
    assert len(ran.stdout.splitlines()) <= 24, "help must fit a screen"
    assert "Example" in ran.stdout.split("Commands")[0]


def test_constraints_pin_every_core_dependency() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = {_canonical(line.partition("==")[0]) for line in (ROOT / "constraints.txt").read_text().splitlines()}
    wanted = {_canonical(re.split(r"[\s;<>=!~\[]", line, maxsplit=1)[0]) for line in project["dependencies"]}
    assert wanted <= pinned


def test_no_open_ends_in_the_product() -> None:
    for path in FILES:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            word = re.search(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b|raise NotImplemented" + r"Error", line)
            assert not word, f"{path.relative_to(ROOT)}:{number}: {word and word[0]}"
