"""What pip and the user have said of where packages come from reaches uv, and nothing else does."""

from __future__ import annotations

import pathlib

import pytest

from advisor.probing.environments import sources


def uv(inherited: dict[str, str] | None = None, **settings: str) -> dict[str, str]:
    return sources.uv_environment(
        inherited or {}, {name.replace("_", "-"): value for name, value in settings.items()}
    )


def test_the_section_that_pip_lets_prevail_counts() -> None:
    lines = [
        "global.index-url='https://one/'",
        ":env:.index-url='https://three/'",
        "install.index-url='https://two/'",
        "freeze.timeout='9'",
    ]
    assert sources.parse_pip_settings(lines) == {"index-url": "https://three/"}


@pytest.mark.parametrize(
    "line", ["", "no sign", "global.cert=", "global.cert=__import__('os')", "global.timeout=15"]
)
def test_a_line_that_cannot_be_read_is_left_out(line: str) -> None:
    assert sources.parse_pip_settings([line, "global.cert='/ca.pem'"]) == {"cert": "/ca.pem"}


def test_pip_s_own_command_is_asked(tmp_path: pathlib.Path) -> None:
    pip = tmp_path / "pip"
    pip.write_text("#!/bin/sh\necho \"global.find-links='/wheels'\"\n")
    pip.chmod(0o755)
    found = sources.read_pip_settings(
        {
            "PATH": f"{tmp_path}:/usr/bin:/bin",
            "PIP_FIND_LINKS": "/wheels",
            "PIP_CONFIG_FILE": "/dev/null",
        }
    )
    assert found["find-links"] == "/wheels"


def test_settings_of_pip_are_said_to_uv() -> None:
    made = uv(
        index_url="https://mirror/simple",
        extra_index_url="https://a/simple\nhttps://b/simple",
        find_links="/one /two",
        trusted_host="mirror",
        cert="/ca.pem",
        proxy="http://proxy:3128",
    )
    assert made["UV_DEFAULT_INDEX"] == "https://mirror/simple"
    assert made["UV_INDEX"] == "https://a/simple https://b/simple"
    assert made["UV_FIND_LINKS"] == "/one,/two"
    assert made["UV_INSECURE_HOST"] == "mirror"
    assert made["SSL_CERT_FILE"] == "/ca.pem"
    assert made["ALL_PROXY"] == "http://proxy:3128"


def test_what_the_user_has_told_uv_prevails() -> None:
    inherited = {
        "UV_INDEX_URL": "https://mine",
        "UV_FIND_LINKS": "/mine",
        "https_proxy": "http://mine",
    }
    made = uv(inherited, index_url="https://pip", find_links="/pip", proxy="http://pip")
    assert inherited.items() <= made.items()
    assert not {"UV_DEFAULT_INDEX", "ALL_PROXY"} & set(made)


def test_of_several_indexes_the_best_version_is_taken_only_where_pip_would() -> None:
    assert "UV_INDEX_STRATEGY" not in uv(index_url="https://one")
    assert uv(extra_index_url="https://two")["UV_INDEX_STRATEGY"] == "unsafe-best-match"
    assert (
        uv({"UV_INDEX_STRATEGY": "first-index"}, extra_index_url="https://two")["UV_INDEX_STRATEGY"]
        == "first-index"
    )


def test_what_leads_to_other_packages_does_not_reach_uv() -> None:
    made = uv(
        {
            "PYTHONPATH": "/poison",
            "VIRTUAL_ENV": "/other",
            "HTTPS_PROXY": "http://proxy",
            "HOME": "/home/user",
        }
    )
    assert not {"PYTHONPATH", "VIRTUAL_ENV"} & set(made)
    assert made["HTTPS_PROXY"] == "http://proxy"


def test_uv_picks_the_build_of_torch_unless_the_user_has_said_where_it_comes_from(
    tmp_path: pathlib.Path,
) -> None:
    assert sources.torch_backend("cpu", {}) == ["--torch-backend", "cpu"]
    assert sources.torch_backend("auto", {"UV_FIND_LINKS": str(tmp_path)}) == [
        "--torch-backend",
        "auto",
    ]
    assert sources.torch_backend("none", {}) == []
    assert sources.torch_backend("cpu", {"UV_TORCH_BACKEND": "cu130"}) == []
    assert sources.torch_backend("cpu", {"UV_DEFAULT_INDEX": "https://mirror"}) == []
    (tmp_path / "torch-2.13.0-cp311-cp311-linux_x86_64.whl").touch()
    assert sources.torch_backend("cpu", {"UV_FIND_LINKS": f"https://elsewhere,{tmp_path}"}) == []
