"use strict";
// The program's own rule, step by step in the same order, so that the same weights give the same floating-point numbers:
// advisor/domain/question.py (shares, weigh, with_weight) and advisor/score/__init__.py (rank).
const PILLARS = ["performance", "productivity", "portability"];
const FURTHER = ["input_flexibility", "architecture_support"];
const given = JSON.parse(document.getElementById("arms").textContent);
let weights = { ...given.weights };

function shares(now) {
  const further = FURTHER.map((name) => now[name] / 100);
  const left = 1 - (0 + further[0] + further[1]);
  return [...PILLARS.map((name) => (now[name] / 100) * left), ...further];
}

function score(arm, now) {
  const sum = shares(now).reduce((total, share, place) => total + share * arm.tiers[place], 0);
  return Math.round(sum * 1e9) / 1e9;
}

function rank(now) {
  const scored = given.arms.map((arm) => ({ ...arm, score: score(arm, now) }));
  const order = (one, two) =>
    one.barred - two.barred || two.score - one.score || two.speedup - one.speedup || (one.arm < two.arm ? -1 : one.arm > two.arm ? 1 : 0);
  return scored.sort(order);
}

function withWeight(pillar, weight) {
  const others = PILLARS.filter((name) => name !== pillar);
  const total = 0 + weights[others[0]] + weights[others[1]];
  const portions = others.map((name) => (total ? weights[name] / total : 1 / others.length));
  const next = { ...weights, [pillar]: weight };
  others.forEach((name, place) => { next[name] = (100 - weight) * portions[place]; });
  return next;
}

function show() {
  const ranked = rank(weights);
  const body = document.getElementById("reranked");
  for (const arm of ranked) {
    const row = given.arms.findIndex((each) => each.arm === arm.arm);
    const line = document.getElementById("rerank-" + row);
    line.querySelector(".score").textContent = arm.score.toFixed(2);
    body.append(line);
  }
  for (const pillar of PILLARS) {
    document.getElementById("weight-" + pillar).value = weights[pillar];
    document.getElementById("shown-" + pillar).textContent = weights[pillar].toFixed(1) + " %";
  }
  const best = ranked[0];
  document.getElementById("answer").textContent = best.barred ? "Every workflow fails a constraint." : "Use " + best.arm + ".";
  const exact = PILLARS.map((name) => name + "=" + weights[name]).join(",");
  document.getElementById("command").textContent = "p3-advisor decide " + given.run + " --priority " + exact + given.further;
}

for (const pillar of PILLARS) {
  document.getElementById("weight-" + pillar).addEventListener("input", (event) => {
    weights = withWeight(pillar, Number(event.target.value));
    show();
  });
}
document.getElementById("reset").addEventListener("click", () => {
  weights = { ...given.weights };
  show();
});
document.getElementById("sliders").hidden = false;
show();
