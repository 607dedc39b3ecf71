"""The package sources of pip and of the user reach uv, and nothing else does."""

from __future__ import annotations

import pathlib

import pytest

from advisor.probing.environments import uv_runner


def uv(inherited: dict[str, str] | None = None, **settings: str) -> dict[str, str]:
    return uv_runner.uv_environment(
        inherited or {}, {name.replace("_", "-"): value for name, value in settings.items()}
    )


def test_sections_have_the_precedence_of_pip() -> None:
    lines = [
        "global.index-url='https://one/'",
        ":env:.index-url='https://three/'",
        "install.index-url='https://two/'",
        "freeze.timeout='9'",
    ]
    assert uv_runner.parse_pip_settings(lines) == {"index-url": "https://three/"}


@pytest.mark.parametrize(
    "line",
    ["", "no equals sign", "global.cert=", "global.cert=__import__('os')", "global.timeout=15"],
)
def test_an_unreadable_line_is_skipped(line: str) -> None:
    assert uv_runner.parse_pip_settings([line, "global.cert='/ca.pem'"]) == {"cert": "/ca.pem"}


def test_settings_come_from_pip_config(tmp_path: pathlib.Path) -> None:
    pip = tmp_path / "pip"
    pip.write_text("#!/bin/sh\necho \"global.find-links='/wheels'\"\n")
    pip.chmod(0o755)
    found = uv_runner.read_pip_settings(
        {
            "PATH": f"{tmp_path}:/usr/bin:/bin",
            "PIP_FIND_LINKS": "/wheels",
            "PIP_CONFIG_FILE": "/dev/null",
        }
    )
    assert found["find-links"] == "/wheels"


def test_settings_of_pip_become_variables_of_uv() -> None:
    variables = uv(
        index_url="https://mirror/simple",
        extra_index_url="https://a/simple\nhttps://b/simple",
        find_links="/one /two",
        trusted_host="mirror",
        cert="/ca.pem",
        proxy="http://proxy:3128",
    )
    assert variables["UV_DEFAULT_INDEX"] == "https://mirror/simple"
    assert variables["UV_INDEX"] == "https://a/simple https://b/simple"
    assert variables["UV_FIND_LINKS"] == "/one,/two"
    assert variables["UV_INSECURE_HOST"] == "mirror"
    assert variables["SSL_CERT_FILE"] == "/ca.pem"
    assert variables["ALL_PROXY"] == "http://proxy:3128"


def test_variables_of_the_user_have_precedence() -> None:
    inherited = {
        "UV_INDEX_URL": "https://mine",
        "UV_FIND_LINKS": "/mine",
        "https_proxy": "http://mine",
    }
    variables = uv(inherited, index_url="https://pip", find_links="/pip", proxy="http://pip")
    assert inherited.items() <= variables.items()
    assert not {"UV_DEFAULT_INDEX", "ALL_PROXY"} & set(variables)


def test_the_best_version_of_several_indexes_is_taken_only_where_pip_would() -> None:
    assert "UV_INDEX_STRATEGY" not in uv(index_url="https://one")
    assert uv(extra_index_url="https://two")["UV_INDEX_STRATEGY"] == "unsafe-best-match"
    assert (
        uv({"UV_INDEX_STRATEGY": "first-index"}, extra_index_url="https://two")["UV_INDEX_STRATEGY"]
        == "first-index"
    )


def test_python_path_variables_do_not_reach_uv() -> None:
    variables = uv(
        {
            "PYTHONPATH": "/foreign",
            "VIRTUAL_ENV": "/other",
            "HTTPS_PROXY": "http://proxy",
            "HOME": "/home/user",
        }
    )
    assert not {"PYTHONPATH", "VIRTUAL_ENV"} & set(variables)
    assert variables["HTTPS_PROXY"] == "http://proxy"


def test_uv_selects_the_build_of_torch_unless_the_user_configured_its_source(
    tmp_path: pathlib.Path,
) -> None:
    assert uv_runner.torch_backend("cpu", {}) == ["--torch-backend", "cpu"]
    assert uv_runner.torch_backend("auto", {"UV_FIND_LINKS": str(tmp_path)}) == [
        "--torch-backend",
        "auto",
    ]
    assert uv_runner.torch_backend("none", {}) == []
    assert uv_runner.torch_backend("cpu", {"UV_TORCH_BACKEND": "cu130"}) == []
    assert uv_runner.torch_backend("cpu", {"UV_DEFAULT_INDEX": "https://mirror"}) == []
    (tmp_path / "torch-2.13.0-cp311-cp311-linux_x86_64.whl").touch()
    assert uv_runner.torch_backend("cpu", {"UV_FIND_LINKS": f"https://elsewhere,{tmp_path}"}) == []
