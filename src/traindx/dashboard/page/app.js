// Routing, theme and the little helpers every view uses. Text from runs is only ever set as text.
import { runsView, runView, compareView, gradientsView, unitsView, weightsView } from "./views.js";
import { forgetCharts, redrawCharts } from "./charts.js";

const main = document.getElementById("main");
let leave = () => {};

export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value === true) node.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(key, String(value));
  }
  for (const child of children.flat()) if (child !== null && child !== undefined) node.append(child);
  return node;
}

export async function get(path) {
  const answer = await fetch(path, { headers: { accept: "application/json" } });
  if (!answer.ok) throw new Error((await answer.text()) || answer.statusText);
  return answer.json();
}

export function number(value) {
  if (value === null || value === undefined || typeof value === "string") return String(value ?? "–");
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size >= 1e5 || size < 1e-3 ? value.toExponential(2) : String(Number(value.toPrecision(4)));
}

export function badge(verdict) {
  return el("span", { class: `badge ${verdict}` }, verdict.replaceAll("-", " "));
}

const routes = [
  [/^#\/run\/([0-9a-f]+)$/, runView],
  [/^#\/compare\/([0-9a-f]+)\/([0-9a-f]+)$/, compareView],
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
document.addEventListener("keydown", (event) => {
  if (event.target instanceof HTMLInputElement || event.metaKey || event.ctrlKey || event.altKey) return;
  if (event.key === "/") { const search = document.querySelector("input[type=search]"); if (search) { event.preventDefault(); search.focus(); } }
  if (event.key === "r" && window.location.hash !== "") window.location.hash = "#/";
  if (event.key === "t") theme();
});
if (document.readyState === "complete") show(); else window.addEventListener("load", show);
