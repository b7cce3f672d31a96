// One run as it trains, and two runs side by side.
import { el, get, badge, copyable, ICON } from "./parts.js";
import { chart, line, refreshCharts, signal } from "./charts.js";

const live = document.getElementById("live");

export async function explain(code) {
  const page = await get(`/api/explain/${code}`);
  const dialog = el("dialog", { "aria-label": `${page.code} ${page.name}` }, el("h2", {}, `${page.code} ${page.name}`), el("pre", {}, page.page), el("button", { type: "button", onclick: () => dialog.close() }, "Close"));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

function findingNode(f) {
  return el("div", { class: `finding ${f.severity}` },
    el("div", { class: "row" }, el("span", {}, el("span", { class: `icon ${f.severity}`, "aria-hidden": "true" }, ICON[f.severity]), " ", el("b", {}, f.code), ` ${f.name.replaceAll("-", " ")}`), el("button", { type: "button", onclick: () => explain(f.code), "aria-label": `Explain ${f.code}` }, "explain")),
    el("div", { class: "soft small" }, `${f.severity}, ${f.confidence}${f.steps ? `, steps ${f.steps.join("–")}` : ""}${f.rank !== null ? `, rank ${f.rank}` : ""}`),
    el("div", {}, f.message), f.fix ? el("div", { class: "do small" }, el("b", {}, "Do"), el("span", { class: "copy" }, f.fix)) : null);
}

function story(run) {
  const meta = el("div", { class: "meta" }, [run.name, run.state, run.steps ? `steps ${run.steps.join("–")}` : "", ...Object.entries(run.about).map(([k, v]) => `${k} ${v}`)].filter(Boolean).map((t) => el("span", {}, t)));
  if (!run.report) return [el("span", { class: "badge info" }, run.judged ? "? cannot be judged" : "… being judged"), el("h1", {}, run.name), meta];
  const d = run.report.diagnosis;
  const parts = [badge(d.verdict), el("h1", {}, d.headline), d.why ? el("p", {}, `${d.why}.`) : null, meta].filter(Boolean);
  const alarmed = run.report.findings.some((f) => f.severity !== "info");
  const [first, ...rest] = d.causes.filter((c) => c.probability >= (alarmed ? 0.1 : 0.33)).slice(0, 3);
  if (first) parts.push(el("div", { class: "do" }, el("b", {}, "Do"), copyable(first.prescription)));
  if (d.waiting || d.start) parts.push(el("p", { class: "soft" }, `${alarmed ? "Until then: " : ""}${d.waiting} ${d.start}`));
  if (d.needs.length) parts.push(el("p", { class: "soft" }, `${d.why ? "To confirm" : "Needs"}: ${d.needs.join("; ")}.`));
  for (const c of [first, ...rest].filter(Boolean)) {
    parts.push(el("p", { class: "cause" }, el("b", {}, `${c.title ?? c.cause.replaceAll("-", " ")}`), el("span", { class: "soft" }, `, ${c.calibrated === false ? c.words : `${Math.round(100 * c.probability)} %`}, because of ${c.for.join(", ")}${c.against.length ? `; against it: ${c.against.join(", ")}` : ""}`),
      c.next_test ? el("span", { class: "soft" }, ". To confirm: ", el("code", {}, c.next_test === "replay" ? "traindx replay CAPSULE" : `traindx trial ${c.next_test} TARGET`)) : null));
  }
  return parts;
}

function findings(run) {
  if (!run.report) return [el("h2", {}, "Findings"), el("p", { class: "soft" }, run.judged ? "The run could not be read." : "A moment, please.")];
  const shown = run.report.findings.slice(0, 25);
  const o = run.report.outcomes;
  return [el("h2", {}, "Findings"), ...(shown.length ? shown.map(findingNode) : [el("p", { class: "soft" }, "None.")]),
    el("p", { class: "soft small" }, `${o.clear.length} conditions clear, ${o.unsure.length} undecided, ${o.blind.length} need data this run does not have, ${o.muted.length} do not apply`)];
}

function ranks(run) {
  if (!run.ranks) return [];
  const { rows, all, parting } = run.ranks, columns = Object.keys(rows[0]);
  const cells = (row) => columns.map((c) => el("td", { class: c === "rank" || c === "ended" ? "" : "num" }, row[c] === null ? "" : String(row[c])));
  return [el("h2", {}, "Ranks"), el("p", { class: "small" }, `Mean ± spread of each; ${parting}.${all > rows.length ? ` ${rows.length} of ${all} are shown.` : ""}`),
    el("div", { class: "scroll ranks", tabindex: rows.length > 8 ? 0 : null, role: "region", "aria-label": "Ranks side by side" }, el("table", {}, el("thead", {}, el("tr", {}, columns.map((c) => el("th", { scope: "col", class: c === "rank" || c === "ended" ? "" : "num" }, c)))), el("tbody", {}, rows.map((row) => el("tr", {}, cells(row))))))];
}

const FIRST = ["loss/train", "loss/val", "accuracy/val", "lr", "grad_norm", "update_ratio", "grad_norm/param", "update_ratio/param", "act_rms/module", "dead_fraction/module", "time/step", "mem/rss"];
const OPEN = ["Loss and metrics", "Learning rate and clipping", "Gradients", "Updates"];

function order(signals) {
  const place = (n) => { const i = FIRST.indexOf(n); return i < 0 ? FIRST.length : i; };
  return [...signals].filter((s) => s.records > 1).sort((a, b) => place(a.name) - place(b.name) || a.name.localeCompare(b.name));
}

function groups(signals, card) {
  const found = new Map();
  for (const s of signals) { if (!found.has(s.group)) found.set(s.group, []); found.get(s.group).push(card(s)); }
  return [...found].map(([title, cards]) => {
    const fold = el("details", { class: "group" }, el("summary", {}, `${title} (${cards.length})`), el("div", { class: "grid" }, cards));
    fold.open = OPEN.includes(title) || found.size < 3;
    return fold;
  });
}

export async function runView(main, id) {
  let run = await get(`/api/run/${id}`);
  const head = el("header", { class: "verdict" }), side = el("aside", { "aria-label": "Findings", "aria-live": "polite" }), place = el("div"), beside = el("section");
  const filter = el("input", { type: "search", placeholder: "Find a signal  ( / )", "aria-label": "Find a signal" });
  let told = "";
  const fill = () => { // what is shown already stays, and so does the focus of whoever walks through it by keyboard
    const text = JSON.stringify([run.report, run.judged, run.state, run.steps, run.ranks]);
    if (text === told) return;
    told = text;
    const at = [...side.querySelectorAll("button")].indexOf(document.activeElement);
    head.className = `verdict ${run.report?.diagnosis.verdict ?? ""}`; head.replaceChildren(...story(run)); side.replaceChildren(...findings(run)); beside.replaceChildren(...ranks(run));
    if (at >= 0) side.querySelectorAll("button")[at]?.focus();
  };
  fill();
  const marksOf = (name) => (run.report?.findings ?? []).filter((f) => f.severity !== "info" && f.steps && f.signals.includes(name)).map((f) => ({ steps: f.steps, severity: f.severity, code: f.code })).slice(0, 2);
  const cards = new Map();
  const card = (s) => {
    const made = chart(s.name, (lo, hi) => signal(id, s.name, lo, hi), { wide: s.kind === "matrix", marks: marksOf(s.name), band: run.bands[s.name] ?? null, hint: s.meaning });
    cards.set(s.name, made);
    return made;
  };
  const folds = groups(order(run.signals), card);
  place.append(...folds);
  filter.addEventListener("input", () => {
    const w = filter.value.toLowerCase();
    for (const [name, node] of cards) node.hidden = !name.toLowerCase().includes(w);
    for (const fold of folds) { const some = [...fold.querySelectorAll(".card")].some((c) => !c.hidden); fold.hidden = !some; if (w) fold.open = some; }
  });
  const losses = ["loss/train", "loss/val"].filter((n) => run.signals.some((s) => s.name === n && s.records > 1));
  const both = async (lo, hi) => { const got = await Promise.all(losses.map((n) => signal(id, n, lo, hi))); return { kind: "line", traces: got.map((d, i) => line(d.x, d.y, d.name, i)) }; };
  const curve = losses.length ? [chart("Loss", both, { marks: marksOf("loss/train"), hint: "training and validation loss" })] : [];
  main.replaceChildren(el("div", { class: "two" }, el("div", {}, head, ...curve, beside), side), el("h2", {}, "Signals"), el("div", { class: "toolbar" }, filter, el("span", { class: "soft small" }, "Drag to zoom, double-click to go back.")), place);
  const source = new EventSource(`/api/run/${id}/live`);
  let version = null, judged = null;
  source.onmessage = async (message) => {
    const now = JSON.parse(message.data);
    if (now.gone) { live.textContent = "the record is gone"; return; }
    live.textContent = now.state === "running" ? `● live, step ${(now.steps ? now.steps[1] : 0).toLocaleString()}` : now.state;
    const grown = version !== null && now.version !== version, news = now.judged !== judged || (!run.report && now.judged);
    version = now.version;
    judged = now.judged;
    if (news) {
      const shape = run.signals.length;
      run = await get(`/api/run/${id}`);
      fill();
      if (run.signals.length !== shape) for (const s of order(run.signals)) if (!cards.has(s.name)) folds[0]?.querySelector(".grid").append(card(s));
    }
    if (grown) refreshCharts();
  };
  return () => source.close();
}

// ---- two runs

export async function compareView(main, a, b) {
  main.replaceChildren(el("p", { class: "soft" }, "Comparing …"));
  const [found, one, two] = await Promise.all([get(`/api/compare/${a}/${b}`), get(`/api/run/${a}`), get(`/api/run/${b}`)]);
  const first = found.separations.find((s) => s.beyond_noise !== null);
  const both = order(one.signals).filter((s) => s.kind === "series" && two.signals.some((t) => t.name === s.name && t.records > 1)).slice(0, 24);
  const data = (name) => async (lo, hi) => {
    const [x, y] = await Promise.all([a, b].map((id) => signal(id, name, lo, hi)));
    return { kind: "line", traces: [line(x.x, x.y, "A", 0), line(y.x, y.y, "B", 1)] };
  };
  const value = (v) => (typeof v === "string" ? v : JSON.stringify(v) ?? "–");
  const table = (title, rows) => Object.keys(rows).length ? [el("h2", {}, title), el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, ["", "A", "B"].map((t) => el("th", {}, t)))), el("tbody", {}, Object.entries(rows).map(([k, [p, q]]) => el("tr", {}, el("td", { class: "mono" }, k), el("td", {}, value(p)), el("td", {}, value(q)))))))] : [];
  const named = (letter, run) => el("span", { class: `key ${letter === "A" ? "a" : "b"}` }, `${letter}: `, el("a", { href: `#/run/${run.id}` }, run.name), " ", run.report ? badge(run.report.diagnosis.verdict) : "");
  main.replaceChildren(
    el("h1", {}, found.summary),
    el("div", { class: "meta" }, named("A", one), named("B", two)),
    el("p", {}, first ? `They part at step ${first.beyond_noise} in ${first.signal}${first.where ? ` of ${first.where}` : ""}.` : "No difference beyond noise."),
    ...found.warnings.map((w) => el("p", { class: "finding warning" }, w)),
    el("h2", {}, "Signals"), el("div", { class: "grid" }, both.map((s) => chart(s.name, data(s.name), { hint: s.meaning }))),
    ...table("Configuration", found.configuration), ...table("Environment", found.environment),
  );
}
