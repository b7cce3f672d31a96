// The list of runs: worst first, searchable, two of them to compare.
import { el, get, badge, ICON } from "./parts.js";

const RANK = { critical: 0, warning: 1, info: 2 };
const SHOWN = 300;
const MOST_SETTINGS = 6;
const KINDS = [["all", () => true], ["alarms", (r) => (RANK[r.health?.severity] ?? 3) < 2], ["running", (r) => r.state === "running"]];

function ago(seconds) {
  if (!seconds) return "";
  const s = Math.max(0, Date.now() / 1000 - seconds);
  for (const [limit, unit, size] of [[90, "s", 1], [5400, "min", 60], [129600, "h", 3600]]) if (s < limit) return `${Math.round(s / size)} ${unit} ago`;
  return `${Math.round(s / 86400)} days ago`;
}

/** The columns that tell runs apart: their metric, and the settings that differ. */
function shown(answer) {
  if (answer.runs.length < 2) return [];
  const number = (v) => (typeof v === "number" ? v : null);
  const measured = answer.metric ? [[`best ${answer.metric}`, (r) => number(r.best)], ["last", (r) => number(r.last)]] : [];
  const keys = [...new Set(answer.runs.flatMap((r) => Object.keys(r.settings ?? {})))].slice(0, MOST_SETTINGS);
  return [...measured, ...keys.map((k) => [k, (r) => r.settings?.[k]])];
}

function told(value) {
  return typeof value === "number" ? String(Number(value.toPrecision(4))) : String(value ?? "");
}

export async function runsView(main) {
  const search = el("input", { type: "search", placeholder: "Search runs  ( / )", "aria-label": "Search runs" });
  const body = el("tbody");
  const picked = new Set();
  const compare = el("button", { type: "button", disabled: true, onclick: () => { window.location.hash = `#/compare/${[...picked].join("/")}`; } }, "Compare two");
  const count = el("span", { class: "soft small", role: "status" });
  const together = el("div", { class: "small" });
  const head = el("tr");
  let runs = [], said = "", most = SHOWN, kind = KINDS[0], columns = [], order = null, up = false;
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
      ...columns.map(([, value]) => el("td", { class: typeof value(r) === "number" ? "own num small" : "own small" }, told(value(r)))),
      el("td", {}, r.health ? badge(r.health.verdict) : el("span", { class: "soft" }, "…")),
      el("td", { class: "what small" }, r.health ? [loud ? el("span", { class: `icon ${r.health.severity}`, "aria-hidden": "true" }, `${ICON[r.health.severity]} `) : null, r.health.summary] : "being judged"),
      el("td", { class: "step num" }, r.step ?? ""), el("td", { class: "seen small soft" }, ago(r.updated)));
  }
  function heads() {
    const title = (column) => el("th", { scope: "col", "aria-sort": column[0] === order ? (up ? "ascending" : "descending") : "none" },
      el("button", { type: "button", onclick: () => { up = column[0] === order && !up; order = column[0]; draw(); } }, column[0]));
    const plain = (text) => el("th", { scope: "col" }, text);
    head.replaceChildren(plain(""), plain("run"), ...columns.map(title), ...["health", "what", "step", "last sign of life"].map(plain));
  }
  function sorted(a, b) {
    const value = columns.find((c) => c[0] === order)?.[1];
    if (!value || value(a) === value(b)) return 0;
    const [x, y] = [value(a) ?? null, value(b) ?? null];
    if (x === null || y === null) return x === null ? 1 : -1;
    return (x < y ? -1 : 1) * (up ? 1 : -1);
  }
  function draw() {
    const wanted = search.value.toLowerCase();
    const rows = runs.filter(kind[1]).filter((r) => `${r.name} ${r.state} ${r.health?.summary ?? ""} ${r.health?.verdict ?? ""} ${r.health?.finding?.code ?? ""}`.toLowerCase().includes(wanted));
    heads();
    rows.sort((a, b) => sorted(a, b) || (RANK[a.health?.severity] ?? 3) - (RANK[b.health?.severity] ?? 3) || (b.updated ?? 0) - (a.updated ?? 0));
    const judged = runs.filter((r) => r.health).length;
    count.textContent = `${rows.length} of ${runs.length}${judged < runs.length ? `, ${judged} judged so far` : ""}`;
    body.replaceChildren(...rows.slice(0, most).map(row));
    if (!rows.length) body.replaceChildren(el("tr", {}, el("td", { colspan: 6 + columns.length, class: "soft" }, runs.length ? "Nothing matches." : "No runs here yet: traindx run train.py")));
    more.hidden = rows.length <= most;
  }
  search.addEventListener("input", draw);
  let gone = false;
  const load = async () => {
    const answer = await get("/api/runs");
    const text = JSON.stringify(answer);
    if (!gone && text !== said) { said = text; runs = answer.runs; columns = shown(answer); together.replaceChildren(...answer.together.map((line) => el("p", {}, line))); draw(); }
  };
  await load();
  const turn = async () => { while (!gone) { await new Promise((r) => setTimeout(r, runs.some((x) => !x.health) ? 1000 : 3000)); await load().catch(() => {}); } };
  turn();
  return () => { gone = true; };
}
