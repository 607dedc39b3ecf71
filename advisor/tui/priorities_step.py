"""Question 3: the weights of the pillars, and the minimum tiers."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.widgets import Select, Static

from advisor.ask.option_values import choose_priorities, parse_constraints
from advisor.domain.arm_figures import CLASSIFIED
from advisor.domain.constraints import CRITERIA, Priorities
from advisor.tui.form import Choice, Field, Step
from advisor.tui.widgets import Weights

TIER_CHOICES = [("", "any"), ("2", "B or better"), ("3", "A")]
CLASS_CHOICES = [("", "any"), ("1", "C or better"), *TIER_CHOICES[1:]]
REQUIRED = (*CRITERIA, CLASSIFIED)


class PrioritiesStep(Step):
    def compose(self) -> ComposeResult:
        presets = self.app.catalogue.presets
        yield Static("What matters to you?  The three sum to 100 %.", classes="lead", markup=False)
        yield Weights(choose_priorities(self.run_options, self.app.catalogue))
        names = [*((name, name) for name in presets.priorities), ("", "custom")]
        preset = self.run_options.preset or (
            "" if self.run_options.priority else presets.default_preset
        )
        yield Field("Preset", Choice(names, preset, id="preset"))
        yield Static("", id="preset-note", markup=False, classes="hint")
        yield Static(
            "Minimum grades (a workflow below one is not recommended)", classes="lead", markup=False
        )
        required = {
            each.quantity: str(each.limit)
            for each in parse_constraints(self.run_options.require)
            if each.asks_for_letter
        }
        for name in REQUIRED:
            values = CLASS_CHOICES if name == CLASSIFIED else TIER_CHOICES
            choice = Choice(values, required.get(name, ""), id=f"required-{name}")
            yield Field(name.replace("_", " ").capitalize(), choice)
        yield Static(
            "accuracy: what a trained model loses; arms with quantised weights are measured too",
            markup=False,
            classes="hint",
        )

    def begin(self) -> None:
        self._draw_preset_note()
        self.query_one("#weight-performance").focus()

    def on_weights_changed(self, event: Weights.Changed) -> None:
        self._store_weights(event.priorities)
        presets = self.app.catalogue.presets.priorities
        same = next(
            (name for name, preset in presets.items() if preset.priorities == event.priorities), ""
        )
        self.query_one("#preset", Choice).choose(same)
        self._draw_preset_note()

    def on_select_changed(self, event: Select.Changed) -> None:
        if event.select.id == "preset":
            preset = self.query_one("#preset", Choice).chosen
            if preset:
                self.change_options(preset=preset, priority="")
                self.query_one(Weights).set_priorities(
                    choose_priorities(self.run_options, self.app.catalogue)
                )
            else:
                self._store_weights(self.query_one(Weights).priorities)
            self._draw_preset_note()
            return
        chosen = {name: self.query_one(f"#required-{name}", Choice).chosen for name in REQUIRED}
        given = parse_constraints(self.run_options.require)
        figures = [each.text for each in given if not each.asks_for_letter]
        letters = [f"{name}>={tier}" for name, tier in chosen.items() if tier]
        self.change_options(require=",".join([*letters, *figures]))

    def _store_weights(self, priorities: Priorities) -> None:
        weights = (f"{name}={getattr(priorities, name)!r}" for name in CRITERIA)
        self.change_options(preset="", priority=",".join(weights))

    def _draw_preset_note(self) -> None:
        name = self.query_one("#preset", Choice).chosen
        presets = self.app.catalogue.presets.priorities
        self.query_one("#preset-note", Static).update(
            presets[name].title if name else "custom weights"
        )
