"use strict";
// This repeats the program's rule with the same operations in the same order, so that the same weights give the same
// floating-point scores: advisor/domain/constraints.py (shares, weigh, with_weight) and advisor/decide/scoring.py
// (sort_key, rank, best_scored).
const data = JSON.parse(document.getElementById("ranking-data").textContent);
let weights = { ...data.weights };

function shares(weights) {
  const further = data.further_criteria.map((name) => weights[name] / 100);
  const left = 1 - further.reduce((total, share) => total + share, 0);
  return [...data.pillars.map((name) => (weights[name] / 100) * left), ...further];
}

function score(arm, weights) {
  const sum = shares(weights).reduce((total, share, index) => total + share * arm.grades[index], 0);
  return Math.round(sum * 1e9) / 1e9;
}

function compareBy(points) {
  return (left, right) =>
    points(right) - points(left) || right.speedup - left.speedup || (left.arm < right.arm ? -1 : 1);
}

function rank(weights) {
  const scored = data.arms.map((arm) => ({ ...arm, score: score(arm, weights) }));
  const byScore = compareBy((arm) => arm.score);
  return scored.sort((left, right) => left.barred - right.barred || byScore(left, right));
}

function choose(ranked) {
  const proven = ranked.filter((arm) => !arm.unproven);
  const viable = proven.some((arm) => !arm.barred) ? proven.filter((arm) => !arm.barred) : proven;
  return [...viable].sort(compareBy((arm) => Math.round((arm.score + arm.bonus) * 1e9) / 1e9))[0];
}

function withWeight(pillar, weight) {
  const others = data.pillars.filter((name) => name !== pillar);
  const total = 0 + weights[others[0]] + weights[others[1]];
  const portions = others.map((name) => (total ? weights[name] / total : 1 / others.length));
  const next = { ...weights, [pillar]: weight };
  others.forEach((name, index) => { next[name] = (100 - weight) * portions[index]; });
  return next;
}

function update() {
  const ranked = rank(weights);
  const body = document.getElementById("reranked");
  for (const arm of ranked) {
    const index = data.arms.findIndex((each) => each.arm === arm.arm);
    const row = document.getElementById("rerank-" + index);
    row.querySelector(".score").textContent = arm.score.toFixed(2);
    body.append(row);
  }
  for (const pillar of data.pillars) {
    document.getElementById("weight-" + pillar).value = weights[pillar];
    document.getElementById("shown-" + pillar).textContent = weights[pillar].toFixed(1) + " %";
  }
  const best = choose(ranked);
  document.getElementById("answer").textContent = best.barred ? "Every workflow fails a constraint." : "Use " + best.arm + ".";
  const priority = data.pillars.map((name) => name + "=" + weights[name]).join(",");
  document.getElementById("command").textContent = "p3-advisor decide " + data.run + " --priority " + priority + data.further_weights;
}

for (const pillar of data.pillars) {
  document.getElementById("weight-" + pillar).addEventListener("input", (event) => {
    weights = withWeight(pillar, Number(event.target.value));
    update();
  });
}
document.getElementById("reset").addEventListener("click", () => {
  weights = { ...data.weights };
  update();
});
document.getElementById("sliders").hidden = false;
update();
