// Copy buttons, keys and rows. Every page reads without this.
"use strict";

for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const said = button.textContent;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.textContent = "copied";
    } catch {
      button.textContent = "press Ctrl-C";
      const range = document.createRange();
      const code = button.parentElement.querySelector("code");
      if (code) { range.selectNodeContents(code); getSelection().removeAllRanges(); getSelection().addRange(range); }
    }
    setTimeout(() => { button.textContent = said; }, 1500);
  });
}
for (const element of document.querySelectorAll(".for-script")) element.hidden = false;

const rows = () => [...document.querySelectorAll("[data-row]")];
const opened = (row) => row && row.querySelector("[data-open]");

function step(by) {
  const all = rows();
  if (!all.length) return follow(by > 0 ? "[data-next]" : "[data-prev]");
  const at = all.findIndex((row) => row.classList.contains("is-current"));
  const next = all[Math.min(all.length - 1, Math.max(0, at < 0 ? 0 : at + by))];
  for (const row of all) row.classList.toggle("is-current", row === next);
  opened(next)?.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

function follow(selector) {
  const link = document.querySelector(selector);
  if (link) link.click();
}

// Chooses the current run; the second one that is chosen opens the comparison. On a run's own page: with another.
function compare() {
  const box = document.querySelector(".is-current [data-pick]");
  if (!box) return follow("a[href^='/compare?']");
  box.checked = !box.checked;
  if (document.querySelectorAll("[data-pick]:checked").length === 2) box.form.submit();
}

function turn(by) {
  const all = [...document.querySelectorAll("[data-turn]")];
  if (!all.length) return;
  const at = all.findIndex((one) => "#" + one.id === location.hash);
  location.hash = all[Math.min(all.length - 1, Math.max(0, at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by))].id;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const inside = event.target.closest?.("input, select, textarea");
  if (inside) { if (event.key === "Escape") inside.blur(); return; }
  const keys = document.getElementById("keys");
  const actions = {
    "/": () => { const find = [...document.querySelectorAll("[data-find]")].pop(); find?.focus(); find?.select(); },
    j: () => step(1),
    k: () => step(-1),
    o: () => opened(document.querySelector(".is-current"))?.click(),
    c: compare,
    n: () => turn(1),
    p: () => turn(-1),
    t: () => follow("[data-view]:not([aria-current])"),
    u: () => follow("[data-up]"),
    "?": () => (keys.open ? keys.close() : keys.showModal()),
  };
  const action = actions[event.key];
  if (action && (!keys.open || event.key === "?")) { event.preventDefault(); action(); }
});

// The rows of a table, remembered in order, so that j and k walk through them on the rollouts' own pages.
const table = document.querySelector("[data-rows]");
if (table) {
  const links = [...table.querySelectorAll("[data-open]")].map((link) => new URL(link.href).pathname);
  try { sessionStorage.setItem("rows", JSON.stringify(links)); } catch { /* Storage may be switched off. */ }
}
