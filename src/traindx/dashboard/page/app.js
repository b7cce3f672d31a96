// Routing, theme and keys.
import { el } from "./parts.js";
import { runsView } from "./runs.js";
import { runView, compareView } from "./views.js";
import { galleryView, gradientsView, unitsView, weightsView } from "./explorers.js";
import { forgetCharts, redrawCharts } from "./charts.js";

const main = document.getElementById("main");
let leave = () => {};

const routes = [
  [/^#\/run\/([0-9a-f]+)$/, runView],
  [/^#\/compare\/([0-9a-f]+)\/([0-9a-f]+)$/, compareView],
  [/^#\/gallery$/, galleryView],
  [/^#\/gradients$/, gradientsView],
  [/^#\/units$/, unitsView],
  [/^#\/weights$/, weightsView],
  [/^(#\/?)?$/, runsView],
];

async function show() {
  leave();
  leave = () => {};
  forgetCharts();
  const hash = window.location.hash;
  document.querySelectorAll("nav.top a").forEach((a) => {
    if (a.getAttribute("href") === (hash || "#/")) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  });
  document.getElementById("live").textContent = "";
  main.replaceChildren(el("p", { class: "soft" }, "Reading …"));
  for (const [pattern, view] of routes) {
    const match = pattern.exec(hash);
    if (!match) continue;
    try {
      leave = (await view(main, ...match.slice(1))) ?? (() => {});
    } catch (error) {
      main.replaceChildren(el("h1", {}, "That did not work"), el("p", {}, error.message), el("p", {}, el("a", { href: "#/" }, "Back to the runs")));
    }
    return;
  }
  main.replaceChildren(el("h1", {}, "There is no such page"), el("p", {}, el("a", { href: "#/" }, "Back to the runs")));
}

function theme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("traindx-theme", root.dataset.theme);
  redrawCharts();
}

const kept = localStorage.getItem("traindx-theme");
if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
document.getElementById("theme").addEventListener("click", theme);
window.addEventListener("hashchange", show);

const KEYS = [["/", "search"], ["j, k", "next, previous run or finding"], ["Enter", "open"], ["r", "all runs"], ["t", "light or dark"], ["?", "these keys"]];

function keys() {
  const dialog = el("dialog", { "aria-label": "Keys" }, el("h2", {}, "Keys"), el("table", {}, KEYS.map(([key, does]) => el("tr", {}, el("td", {}, el("code", {}, key)), el("td", {}, does)))), el("p", {}, el("button", { type: "button", onclick: () => dialog.close() }, "Close")));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

function move(by) {
  const stops = [...document.querySelectorAll(".runs tbody a, .finding button")];
  if (!stops.length) return;
  const at = stops.indexOf(document.activeElement);
  stops[Math.min(stops.length - 1, Math.max(0, at + by))].focus();
}

document.addEventListener("keydown", (event) => {
  if (event.target instanceof HTMLInputElement && event.target.type === "search") { if (event.key === "Escape") event.target.blur(); return; }
  if (event.target instanceof HTMLSelectElement || event.metaKey || event.ctrlKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.key === "/") { const search = document.querySelector("main input[type=search]"); if (search) { event.preventDefault(); search.focus(); } }
  if (event.key === "j") move(1);
  if (event.key === "k") move(-1);
  if (event.key === "r") window.location.hash = "#/";
  if (event.key === "t") theme();
  if (event.key === "?") keys();
});
document.getElementById("keys").addEventListener("click", keys);
show();
