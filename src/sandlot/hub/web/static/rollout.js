// A rollout's page: what was read once is folded, and next and previous follow the table one came from.
"use strict";

// What fits the window stays in view beside a long conversation; what does not scrolls with the page.
for (const part of document.querySelectorAll("[data-stays]")) {
  part.classList.toggle("stays", part.offsetHeight < innerHeight - 32);
}

for (const fold of document.querySelectorAll("details[data-fold]")) {
  const key = "seen:" + fold.dataset.fold;
  try {
    if (fold.open && sessionStorage.getItem(key)) fold.open = false;
    sessionStorage.setItem(key, "1");
    fold.addEventListener("toggle", () => { if (fold.open) sessionStorage.removeItem(key); else sessionStorage.setItem(key, "1"); });
  } catch { /* Storage may be switched off. */ }
}

try {
  const links = JSON.parse(sessionStorage.getItem("rows") || "[]");
  const at = links.indexOf(location.pathname);
  if (at >= 0) {
    for (const [selector, path, word] of [["[data-prev]", links[at - 1], "Previous"], ["[data-next]", links[at + 1], "Next"]]) {
      let link = document.querySelector(selector);
      if (!path) { link?.remove(); continue; }
      if (!link) {
        link = document.createElement("a");
        link.className = "button";
        link.textContent = word;
        link.setAttribute(selector.slice(1, -1), "");
        const row = document.querySelector(".switch").parentElement;
        const next = row.querySelector("[data-next]");
        if (word === "Previous" && next) row.insertBefore(link, next); else row.append(link);
      }
      link.href = path + location.search;
    }
  }
} catch { /* Storage may be switched off: the links then go through the group. */ }
