// The list of runs: worst first, searchable, two of them to compare.
import { el, get, badge, ICON } from "./parts.js";

const RANK = { critical: 0, warning: 1, info: 2 };
const SHOWN = 300;
const KINDS = [["all", () => true], ["alarms", (r) => (RANK[r.health?.severity] ?? 3) < 2], ["running", (r) => r.state === "running"]];

function ago(seconds) {
  if (!seconds) return "";
  const s = Math.max(0, Date.now() / 1000 - seconds);
  for (const [limit, unit, size] of [[90, "s", 1], [5400, "min", 60], [129600, "h", 3600]]) if (s < limit) return `${Math.round(s / size)} ${unit} ago`;
  return `${Math.round(s / 86400)} days ago`;
}

export async function runsView(main) {
  const search = el("input", { type: "search", placeholder: "Search runs  ( / )", "aria-label": "Search runs" });
  const body = el("tbody");
  const picked = new Set();
  const compare = el("button", { type: "button", disabled: true, onclick: () => { window.location.hash = `#/compare/${[...picked].join("/")}`; } }, "Compare two");
  const count = el("span", { class: "soft small", role: "status" });
  const together = el("div", { class: "small" });
  const head = el("tr", {}, ["", "run", "health", "what", "step", "last sign of life"].map((t) => el("th", { scope: "col" }, t)));
  let runs = [], said = "", most = SHOWN, kind = KINDS[0];
  const chips = KINDS.map((k) => el("button", { type: "button", class: "chip", "aria-pressed": k === kind ? "true" : "false", onclick: () => { kind = k; chips.forEach((c, i) => c.setAttribute("aria-pressed", String(KINDS[i] === k))); draw(); } }, k[0]));
  const more = el("button", { type: "button", hidden: true, onclick: () => { most += SHOWN; draw(); } }, "Show more");
  main.replaceChildren(el("h1", {}, "Runs"), el("div", { class: "toolbar" }, search, ...chips, compare, count), together, el("table", { class: "runs" }, el("thead", {}, head), body), more);

  function row(r) {
    const box = el("input", { type: "checkbox", "aria-label": `Select ${r.name} for comparison` });
    box.checked = picked.has(r.id);
    box.addEventListener("click", (e) => e.stopPropagation());
    box.addEventListener("change", () => { if (box.checked) picked.add(r.id); else picked.delete(r.id); compare.disabled = picked.size !== 2; });
    const open = () => { window.location.hash = `#/run/${r.id}`; };
    const loud = (RANK[r.health?.severity] ?? 3) < 2;
    return el("tr", { onclick: open }, el("td", { class: "pick" }, box),
      el("td", {}, el("a", { href: `#/run/${r.id}` }, r.name), el("div", { class: "small soft" }, el("span", { class: `dot ${r.state}`, "aria-hidden": "true" }), r.state, r.ranks > 1 ? `, ${r.ranks} ranks` : "")),
      el("td", {}, r.health ? badge(r.health.verdict) : el("span", { class: "soft" }, "…")),
      el("td", { class: "small" }, r.health ? [loud ? el("span", { class: `icon ${r.health.severity}`, "aria-hidden": "true" }, `${ICON[r.health.severity]} `) : null, r.health.summary] : "being judged"),
      el("td", { class: "num" }, r.step ?? ""), el("td", { class: "small soft" }, ago(r.updated)));
  }
  function draw() {
    const wanted = search.value.toLowerCase();
    const rows = runs.filter(kind[1]).filter((r) => `${r.name} ${r.state} ${r.health?.summary ?? ""} ${r.health?.verdict ?? ""} ${r.health?.finding?.code ?? ""}`.toLowerCase().includes(wanted));
    rows.sort((a, b) => (RANK[a.health?.severity] ?? 3) - (RANK[b.health?.severity] ?? 3) || (b.updated ?? 0) - (a.updated ?? 0));
    const judged = runs.filter((r) => r.health).length;
    count.textContent = `${rows.length} of ${runs.length}${judged < runs.length ? `, ${judged} judged so far` : ""}`;
    body.replaceChildren(...rows.slice(0, most).map(row));
    if (!rows.length) body.replaceChildren(el("tr", {}, el("td", { colspan: 6, class: "soft" }, runs.length ? "Nothing matches." : "No runs here yet: traindx run train.py")));
    more.hidden = rows.length <= most;
  }
  search.addEventListener("input", draw);
  let gone = false;
  const load = async () => {
    const answer = await get("/api/runs");
    const text = JSON.stringify(answer);
    if (!gone && text !== said) { said = text; runs = answer.runs; together.replaceChildren(...answer.together.map((line) => el("p", {}, line))); draw(); }
  };
  await load();
  const turn = async () => { while (!gone) { await new Promise((r) => setTimeout(r, runs.some((x) => !x.health) ? 1000 : 3000)); await load().catch(() => {}); } };
  turn();
  return () => { gone = true; };
}
