"""Question 3: what matters, and what is not up for trade."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.widgets import Static

from advisor.domain.question import CRITERIA, Priorities
from advisor.question.priorities import choose_priorities, parse_constraints
from advisor.tui.steps.step import Step
from advisor.tui.widgets.choice import Choice
from advisor.tui.widgets.weights import Weights

CUSTOM = ("", "my own")
TIERS = [("", "any"), ("2", "B or better"), ("3", "A")]


class PrioritiesStep(Step):
    """Weights with presets, and the least tiers."""

    def compose(self) -> ComposeResult:
        """Make bars, presets and constraints."""
        presets = self.advisor.catalogue.presets
        yield Static("What matters?  The three always sum to 100 %.", classes="lead", markup=False)
        yield Weights(choose_priorities(self.answers, self.advisor.catalogue), id="weights")
        names = [(name, name) for name in presets.priorities]
        preset = self.answers.preset or ("" if self.answers.priority else presets.default_preset)
        yield Choice("Preset", [*names, CUSTOM], preset, id="preset")
        yield Static("", id="preset-note", markup=False, classes="hint")
        yield Static("Must reach (filters; never bends a score)", classes="lead", markup=False)
        least = {
            each.criterion: str(each.at_least) for each in parse_constraints(self.answers.require)
        }
        for criterion in CRITERIA:
            yield Choice(
                criterion.replace("_", " ").capitalize(),
                TIERS,
                least.get(criterion, ""),
                id=f"least-{criterion}",
            )

    def begin(self) -> None:
        """Take the focus."""
        self._note()
        self.query_one("#weight-performance").focus()

    def cycle_preset(self) -> None:
        """Take the next preset."""
        self.query_one("#preset", Choice).action_move(1)

    def on_weights_changed(self, event: Weights.Changed) -> None:
        """Keep the weights; they are a preset's only if they are the same."""
        event.stop()
        self._keep(event.priorities)
        presets = self.advisor.catalogue.presets.priorities
        same = next(
            (name for name, preset in presets.items() if preset.priorities == event.priorities), ""
        )
        self.query_one("#preset", Choice).choose(same)
        self._note()

    def on_choice_chosen(self, event: Choice.Chosen) -> None:
        """Take a preset's weights, or the constraints."""
        event.stop()
        if event.choice.id == "preset":
            if event.value:
                self.answer(preset=event.value, priority="")
                self.query_one(Weights).set_priorities(
                    choose_priorities(self.answers, self.advisor.catalogue)
                )
            else:
                self._keep(self.query_one(Weights).priorities)
            self._note()
            return
        chosen = {name: self.query_one(f"#least-{name}", Choice).value for name in CRITERIA}
        self.answer(require=",".join(f"{name}>={tier}" for name, tier in chosen.items() if tier))

    def _keep(self, priorities: Priorities) -> None:
        given = {name: getattr(priorities, name) for name in CRITERIA}
        self.answer(
            preset="", priority=",".join(f"{name}={weight!r}" for name, weight in given.items())
        )

    def _note(self) -> None:
        name = self.query_one("#preset", Choice).value
        presets = self.advisor.catalogue.presets.priorities
        self.query_one("#preset-note", Static).update(
            presets[name].title if name else "weights of your own"
        )
