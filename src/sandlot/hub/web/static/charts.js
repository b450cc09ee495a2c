// One cursor across all charts of a page, with the numbers of the step under it.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const tip = document.createElement("div");
tip.className = "tip";
tip.hidden = true;
document.body.append(tip);

const charts = () => [...document.querySelectorAll("svg[data-series]")];

function cursor(chart, step) {
  let line = chart.querySelector(".cursor");
  if (step === null) { line?.remove(); return; }
  const [left, right, low, high] = JSON.parse(chart.dataset.box);
  if (!line) {
    line = document.createElementNS(SVG, "line");
    line.setAttribute("class", "cursor");
    chart.append(line);
  }
  const x = left + (right - left) * (high > low ? (step - low) / (high - low) : 0.5);
  const height = chart.viewBox.baseVal.height;
  for (const [name, value] of [["x1", x], ["x2", x], ["y1", 8], ["y2", height - 34]]) line.setAttribute(name, value);
}

function nearest(points, step) {
  return points.reduce((best, point) => (Math.abs(point[0] - step) < Math.abs(best[0] - step) ? point : best), points[0]);
}

function number(value) {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e5)) return value.toExponential(2);
  return String(Number(value.toPrecision(4)));
}

document.addEventListener("pointermove", (event) => {
  const chart = event.target.closest?.("svg[data-series]");
  if (!chart) { if (!tip.hidden) { tip.hidden = true; for (const one of charts()) cursor(one, null); } return; }
  const [left, right, low, high] = JSON.parse(chart.dataset.box);
  const box = chart.getBoundingClientRect();
  const x = ((event.clientX - box.left) / box.width) * chart.viewBox.baseVal.width;
  const series = JSON.parse(chart.dataset.series);
  const at = low + ((x - left) / (right - left)) * (high - low);
  const steps = Object.values(series).flat();
  if (!steps.length || x < left - 8 || x > right + 8) { tip.hidden = true; return; }
  const step = nearest(steps, at)[0];
  for (const one of charts()) cursor(one, step);
  const lines = Object.entries(series).map(([name, points]) => {
    const point = points.find((one) => one[0] === step);
    return point ? `${name}  ${number(point[1])}` : null;
  }).filter(Boolean);
  tip.textContent = [`step ${step}`, ...lines].join("\n");
  tip.hidden = false;
  tip.style.left = Math.max(8, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)) + "px";
  tip.style.top = Math.max(8, event.clientY - tip.offsetHeight - 12) + "px";
}, { passive: true });
