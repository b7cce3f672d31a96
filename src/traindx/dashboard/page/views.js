import { el, get, number, badge } from "./app.js";
import { chart, line, refreshCharts } from "./charts.js";

const SEVERITY = { critical: "✖", warning: "▲", info: "●" };
const RANK = { critical: 0, warning: 1, info: 2 };
const live = document.getElementById("live");

// ---- all runs

export async function runsView(main) {
  const search = el("input", { type: "search", placeholder: "Search runs  ( / )", "aria-label": "Search runs" });
  const body = el("tbody");
  const picked = new Set();
  const compare = el("button", { type: "button", disabled: true, onclick: () => { window.location.hash = `#/compare/${[...picked].join("/")}`; } }, "Compare two");
  const head = el("tr", {}, ["", "run", "health", "what", "step", "last sign of life"].map((t) => el("th", {}, t)));
  main.replaceChildren(
    el("h1", {}, "Runs"),
    el("div", { class: "toolbar" }, search, compare, el("span", { class: "soft small", id: "count" })),
    el("div", { class: "scroll" }, el("table", { class: "runs" }, el("thead", {}, head), body)),
  );
  let runs = [];
  const draw = () => {
    const wanted = search.value.toLowerCase();
    const rows = runs.filter((r) => `${r.name} ${r.health?.summary ?? ""} ${r.health?.verdict ?? ""}`.toLowerCase().includes(wanted));
    rows.sort((a, b) => (RANK[a.health?.severity] ?? 3) - (RANK[b.health?.severity] ?? 3) || (b.updated ?? 0) - (a.updated ?? 0));
    main.querySelector("#count").textContent = `${rows.length} of ${runs.length}`;
    body.replaceChildren(...rows.slice(0, 500).map((r) => row(r)));
    if (!rows.length) body.replaceChildren(el("tr", {}, el("td", { colspan: 6, class: "soft" }, runs.length ? "Nothing matches." : "No runs here yet: traindx run train.py")));
  };
  const row = (r) => {
    const box = el("input", { type: "checkbox", "aria-label": `Select ${r.name} for comparison` });
    box.checked = picked.has(r.id);
    box.addEventListener("click", (e) => e.stopPropagation());
    box.addEventListener("change", () => { if (box.checked) picked.add(r.id); else picked.delete(r.id); compare.disabled = picked.size !== 2; });
    const open = () => { window.location.hash = `#/run/${r.id}`; };
    const when = r.updated ? new Date(r.updated * 1000).toLocaleString() : "";
    return el("tr", { onclick: open }, el("td", {}, box), el("td", {}, el("span", { class: `dot ${r.state}`, title: r.state }), el("a", { href: `#/run/${r.id}` }, r.name)),
      el("td", {}, r.health ? badge(r.health.verdict) : el("span", { class: "soft" }, "…")), el("td", { class: "small" }, r.health?.summary ?? ""), el("td", { class: "num" }, r.step ?? ""), el("td", { class: "small soft" }, when));
  };
  search.addEventListener("input", draw);
  let gone = false;
  const load = async (judge) => { const answer = await get(`/api/runs?judge=${judge}`); if (!gone) { runs = answer.runs; draw(); } return runs.some((r) => !r.health); };
  await load(0);
  (async () => { while (!gone && (await load(4))) await new Promise((r) => setTimeout(r, 50)); })();
  const timer = setInterval(() => load(1).catch(() => {}), 3000);
  return () => { gone = true; clearInterval(timer); };
}

// ---- one run

function findingNode(f, explain) {
  return el("div", { class: `finding ${f.severity}` },
    el("div", {}, el("span", { class: `icon ${f.severity}`, "aria-hidden": "true" }, SEVERITY[f.severity]), " ", el("b", {}, f.code), ` ${f.name} `, el("span", { class: "soft small" }, `${f.severity}, ${f.confidence}`), " ", el("button", { type: "button", onclick: () => explain(f.code) }, "explain")),
    el("div", {}, f.message), f.fix ? el("div", { class: "do small" }, f.fix) : null);
}

async function explain(code) {
  const page = await get(`/api/explain/${code}`);
  const dialog = el("dialog", { "aria-label": `${page.code} ${page.name}` }, el("h2", {}, `${page.code} ${page.name}`), el("pre", {}, page.page), el("button", { type: "button", onclick: () => dialog.close() }, "Close"));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

function story(run) {
  const d = run.report.diagnosis;
  const parts = [badge(d.verdict), el("h1", {}, d.summary), el("div", { class: "meta" }, el("span", {}, run.name), el("span", {}, run.state), el("span", {}, run.report.run.steps ? `steps ${run.report.run.steps.join("–")}` : ""))];
  if (d.resume_from !== null) parts.push(el("p", {}, `Resume from step ${d.resume_from} or the last checkpoint before it.`));
  for (const c of d.causes.filter((c) => c.probability >= 0.1).slice(0, 2)) {
    parts.push(el("div", { class: "card" }, el("h3", {}, c.title ?? c.cause), el("div", { class: "soft small" }, `${Math.round(100 * c.probability)} %, because of ${c.for.join(", ")}${c.against.length ? `; against: ${c.against.join(", ")}` : ""}`), el("div", { class: "do" }, c.prescription), c.next_test ? el("p", { class: "soft small" }, "Settle it: ", el("code", {}, `traindx trial ${c.next_test} TARGET`)) : null));
  }
  return parts;
}

function findings(run) {
  const shown = run.report.findings.slice(0, 25);
  const o = run.report.outcomes;
  return [el("h2", {}, "Findings"), ...(shown.length ? shown.map((f) => findingNode(f, explain)) : [el("p", { class: "soft" }, "None.")]),
    el("p", { class: "soft small" }, `${o.clear.length} clear, ${o.unsure.length} unsure, ${o.blind.length} blind, ${o.muted.length} muted`)];
}

const FIRST = ["loss/train", "loss/val", "accuracy/val", "lr", "grad_norm", "update_ratio", "grad_norm/param", "update_ratio/param", "act_rms/module", "dead_fraction/module", "time/step", "mem/rss"];

function order(signals) {
  const place = (n) => { const i = FIRST.indexOf(n); return i < 0 ? FIRST.length : i; };
  return [...signals].filter((s) => s.records > 1).sort((a, b) => place(a.name) - place(b.name) || a.name.localeCompare(b.name));
}

export async function runView(main, id) {
  let run = await get(`/api/run/${id}`);
  const head = el("header"), side = el("aside", { "aria-label": "Findings" }), charts = el("div", { class: "grid" });
  const filter = el("input", { type: "search", placeholder: "Filter signals", "aria-label": "Filter signals" });
  const fill = () => { head.replaceChildren(...story(run)); side.replaceChildren(...findings(run)); };
  fill();
  const marksOf = (name) => run.report.findings.filter((f) => f.severity !== "info" && f.steps && f.signals.includes(name)).map((f) => f.steps).slice(0, 2);
  const data = (name) => (lo, hi) => get(`/api/run/${id}/signal?name=${encodeURIComponent(name)}&points=2000${lo === null ? "" : `&lo=${lo}&hi=${hi}`}`);
  const cards = order(run.signals).map((s) => [s.name, chart(s.name, data(s.name), { wide: s.kind === "matrix", marks: marksOf(s.name), hint: s.meaning })]);
  charts.append(...cards.map(([, card]) => card));
  filter.addEventListener("input", () => { const w = filter.value.toLowerCase(); for (const [name, card] of cards) card.hidden = !name.toLowerCase().includes(w); });
  const losses = ["loss/train", "loss/val"].filter((n) => run.signals.some((s) => s.name === n && s.records > 1));
  const both = async (lo, hi) => { const got = await Promise.all(losses.map((n) => data(n)(lo, hi))); return { kind: "line", traces: got.map((d, i) => line(d.x, d.y, d.name, i)) }; };
  const curve = losses.length ? [chart("loss", both, { marks: marksOf("loss/train"), hint: "training and validation loss" })] : [];
  main.replaceChildren(el("div", { class: "two" }, el("div", {}, head, ...curve), side), el("h2", {}, "Signals"), el("div", { class: "toolbar" }, filter, el("span", { class: "soft small" }, "Drag to zoom, double-click to go back.")), charts);
  const source = new EventSource(`/api/run/${id}/live`);
  let first = true;
  source.onmessage = async (message) => {
    const now = JSON.parse(message.data);
    live.textContent = now.state === "running" ? `live, step ${now.steps ? now.steps[1] : 0}` : now.state;
    if (first) { first = false; return; }
    run = await get(`/api/run/${id}`);
    fill();
    refreshCharts();
  };
  return () => source.close();
}

// ---- two runs

export async function compareView(main, a, b) {
  const [found, one, two] = await Promise.all([get(`/api/compare/${a}/${b}`), get(`/api/run/${a}`), get(`/api/run/${b}`)]);
  const first = found.separations.find((s) => s.beyond_noise !== null);
  const both = order(one.signals).filter((s) => s.kind === "series" && two.signals.some((t) => t.name === s.name)).slice(0, 24);
  const data = (name) => async (lo, hi) => {
    const cut = lo === null ? "" : `&lo=${lo}&hi=${hi}`;
    const [x, y] = await Promise.all([a, b].map((id) => get(`/api/run/${id}/signal?name=${encodeURIComponent(name)}&points=1500${cut}`)));
    return { kind: "line", traces: [line(x.x, x.y, "A", 0), line(y.x, y.y, "B", 1)] };
  };
  const table = (title, rows) => Object.keys(rows).length ? [el("h2", {}, title), el("div", { class: "scroll" }, el("table", {}, Object.entries(rows).map(([k, [p, q]]) => el("tr", {}, el("td", { class: "mono" }, k), el("td", {}, JSON.stringify(p)), el("td", {}, JSON.stringify(q))))))] : [];
  main.replaceChildren(
    el("h1", {}, `B is ${found.outcome}${found.judged_by ? ` by ${found.judged_by}` : ""}`),
    el("div", { class: "meta" }, el("span", {}, `A ${one.name}`), el("span", {}, `B ${two.name}`)),
    el("p", {}, first ? `They part at step ${first.beyond_noise} in ${first.signal}${first.where ? ` of ${first.where}` : ""}.` : "They do not part beyond noise."),
    ...found.warnings.map((w) => el("p", { class: "finding warning" }, w)),
    ...table("Configuration", found.configuration), ...table("Environment", found.environment),
    el("h2", {}, "Signals"), el("div", { class: "grid" }, both.map((s) => chart(s.name, data(s.name), { hint: s.meaning, marks: [] }))),
  );
}

// ---- explorers

function select(label, options, value, changed) {
  const node = el("select", { onchange: () => changed(node.value) }, options.map((o) => el("option", { value: o, selected: o === value }, o)));
  return el("label", {}, label, node);
}

function slider(label, min, max, step, value, changed, show = (v) => v) {
  const out = el("output", {}, show(value));
  const node = el("input", { type: "range", min, max, step, value, oninput: () => { out.textContent = show(Number(node.value)); }, onchange: () => changed(Number(node.value)) });
  return el("label", {}, el("span", {}, `${label} `, out), node);
}

export async function gradientsView(main) {
  const now = { activation: "relu", init: "he", depth: 30, width: 128, norm: "none", residual: "no" };
  const said = el("p", { role: "status" });
  const ask = () => get(`/api/explore/gradients?${new URLSearchParams(now)}`);
  let latest = ask();
  const again = (key) => (value) => { now[key] = value; latest = ask(); latest.then((d) => { said.textContent = d.verdict; }); refreshCharts(); };
  latest.then((d) => { said.textContent = d.verdict; });
  const picture = (title, key, hint) => chart(title, async () => { const d = await latest; return { kind: "line", log: true, traces: [line(d.layers, d[key], title, 0)] }; }, { hint });
  main.replaceChildren(
    el("h1", {}, "Gradient health by depth"),
    el("p", { class: "soft" }, "One forward and one backward pass of a random net, computed now. What reaches the first layers?"),
    el("div", { class: "controls" }, select("activation", ["relu", "leaky-relu", "gelu", "tanh", "sigmoid", "linear"], now.activation, again("activation")), select("initialisation", ["he", "xavier", "small", "large"], now.init, again("init")),
      select("normalisation", ["none", "layer"], now.norm, again("norm")), select("residuals", ["no", "yes"], now.residual, again("residual")), slider("depth", 2, 100, 1, now.depth, again("depth")), slider("width", 8, 512, 8, now.width, again("width"))),
    said, el("div", { class: "grid" }, picture("signal (RMS) by layer", "forward", "forward scale"), picture("gradient of the weights by layer", "weight_gradient", "gradient scale")),
  );
}

export async function unitsView(main) {
  const now = { lr: 0.1, bias: 0, depth: 6, width: 64 };
  const said = el("p", { role: "status" });
  const ask = () => get(`/api/explore/units?${new URLSearchParams(now)}`);
  let latest = ask();
  const tell = (d) => { said.textContent = d.diverged ? "The loss ran away: the learning rate is too high." : `${Math.round(100 * Math.min(...d.alive))} % of the units of the worst layer still fire after training.`; };
  const again = (key) => (value) => { now[key] = value; latest = ask(); latest.then(tell); refreshCharts(); };
  latest.then(tell);
  main.replaceChildren(
    el("h1", {}, "Living units"),
    el("p", { class: "soft" }, "A small ReLU net learns by plain gradient descent, computed now. A unit is alive if any of 256 samples makes it fire."),
    el("div", { class: "controls" }, slider("learning rate 10^", -3, 1.5, 0.1, -1, (v) => again("lr")(10 ** v), (v) => v.toFixed(1)), slider("initial bias", -3, 3, 0.1, 0, again("bias")), slider("depth", 1, 12, 1, 6, again("depth")), slider("width", 8, 128, 8, 64, again("width"))),
    said,
    el("div", { class: "grid" },
      chart("share of living units by layer", async () => { const d = await latest; return { kind: "line", log: false, traces: [{ x: d.layers, y: d.alive, type: "bar", marker: { color: getComputedStyle(document.documentElement).getPropertyValue("--a") } }] }; }, { hint: "after training" }),
      chart("loss", async () => { const d = await latest; return { kind: "line", traces: [line(d.loss.map((_, i) => i), d.loss, "loss")] }; }, { hint: "over the steps" }),
      chart("living units over time, by layer", async () => { const d = await latest; return { kind: "line", log: false, traces: d.layers.slice(0, 4).map((l, i) => line(d.history.map((_, t) => t), d.history.map((h) => h[l - 1]), `layer ${l}`, i)) }; }, { hint: "first four layers" })),
  );
}

export async function weightsView(main) {
  const shapes = await get("/api/explore/weights");
  main.replaceChildren(
    el("h1", {}, "Weight shapes"),
    el("p", { class: "soft" }, "What a layer's weights look like when it is well, and when it is not."),
    el("div", { class: "grid" }, Object.entries(shapes).map(([name, s]) => {
      const card = chart(name, async () => ({ kind: "line", log: false, traces: [{ x: s.counts.map((_, i) => (s.edges[i] + s.edges[i + 1]) / 2), y: s.counts, type: "bar", marker: { color: getComputedStyle(document.documentElement).getPropertyValue("--a") } }] }), { hint: s.says });
      card.append(el("p", { class: "small" }, s.says), el("p", { class: "soft small" }, `standard deviation ${number(s.std)}, kurtosis ${number(s.kurtosis)}`));
      return card;
    })),
  );
}
