"""The models of `panel.toml`, as questions name them."""

from __future__ import annotations

import pathlib
from typing import Any

import msgspec

from advisor.ask.rubric_files import read
from advisor.domain.model import FactoryModel, Model, TransformersModel

FOLDER = pathlib.Path(__file__).parent


class PanelModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A small model with random weights: a configuration of transformers, or a factory."""

    id: str
    family: str
    config: dict[str, Any] | None = None
    #: A function of `panel_models.py`.
    factory: str = ""

    @property
    def factory_name(self) -> str:
        return f"{FOLDER / 'panel_models.py'}:{self.factory}"

    def to_model(self) -> Model:
        if self.config is not None:
            return TransformersModel(name=self.id, weights="random", config=self.config)
        return FactoryModel(name=self.factory_name)


def read_panel() -> list[PanelModel]:
    return read(FOLDER / "panel.toml", dict[str, list[PanelModel]])["model"]
