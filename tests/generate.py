"""Write every generated file that is stale, and print its name: `python tests/generate.py`."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from collections.abc import Mapping

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "studies"))

from kept import earlier_runs, results_page, verified
from stacks import extras

from advisor.ask import catalogue_files
from advisor.cli import schemas
from advisor.probing import env_registry


def render_all() -> dict[pathlib.Path, str]:
    catalogue = ROOT / "rubric"
    pyproject = ROOT / "pyproject.toml"
    pages = (ROOT / "docs" / "results.md", ROOT / "docs" / "tables.md")
    environments = env_registry.own_environments(catalogue_files.load().workflows)
    terms = catalogue_files.read_glossary()
    rows = (f"- **{term}**: {terms[term]}" for term in sorted(terms, key=str.lower))
    return {
        pyproject: extras.render(pyproject.read_text(encoding="utf-8"), environments),
        catalogue / "integration.toml": render_integrations(),
        catalogue / "verified.toml": verified.render(),
        catalogue / "earlier_runs.toml": earlier_runs.render(),
        ROOT / "docs" / "glossary.md": "\n".join(["# Glossary", "", *rows]) + "\n",
        **{page: results_page.render(page.read_text(encoding="utf-8")) for page in pages},
        **{schema_file(name): schemas.render(name).decode() for name in schemas.SHIPPED},
    }


def schema_file(name: str) -> pathlib.Path:
    return ROOT / "rubric" / "schema" / f"{name}.schema.json"


def render_integrations() -> str:
    """Run `integration.py` in its own process: it replaces every stack's modules by stubs."""
    command = [sys.executable, str(ROOT / "tests/stacks/integration.py")]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def stale_files(texts: Mapping[pathlib.Path, str]) -> list[pathlib.Path]:
    """Return the paths whose file is missing or has another text than in `texts`."""
    return [
        path
        for path, text in texts.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]


def main() -> None:
    texts = render_all()
    for path in stale_files(texts):
        sys.stdout.write(f"{path.relative_to(ROOT)}\n")
        path.parent.mkdir(exist_ok=True)
        path.write_text(texts[path], encoding="utf-8")


if __name__ == "__main__":
    main()
