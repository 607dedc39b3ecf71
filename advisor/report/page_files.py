"""The style sheet, scripts and templates of pages, and the policy that lets only them apply."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources


def package_file(name: str) -> str:
    """Return a file of `advisor/report/templates`."""
    return (resources.files("advisor.report") / "templates" / name).read_text(encoding="utf-8")


def security_policy(style: str, code: str = "") -> str:
    """Return a content security policy that allows this style sheet and script, and no request."""
    script = f"script-src '{_hash(code)}'; " if code else ""
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; {script}"
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
