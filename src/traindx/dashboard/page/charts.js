// Charts are drawn when they come into view, and again when their run has grown. Whoever points at one gets it interactive: only
// then does plotly take it over, and fetches finer data when the user zooms.
import { el, get, number } from "./parts.js";
import { sketch } from "./sketch.js";

const mounted = new Map();
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const scale = () => Array.from({ length: 9 }, (_, i) => [i / 8, colour(`--h${i}`)]);
const OPTIONS = { displaylogo: false, responsive: true, modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"] };
const POINTS = 900;
const MOST_LIVE = 4; // interactive charts at a time: each costs thirty times a drawing whenever it is renewed
const FRAME_MS = 8; // spent on drawings per frame

let interactive = true;
export function drawOnly() { interactive = false; } // pages without the chart library

// Plotly reads a little HTML in labels; names from a log are shown as they are.
export const plain = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;");

let library = null;
function plotly() {
  library ??= new Promise((done, failed) => {
    if (window.Plotly) { done(window.Plotly); return; }
    const script = el("script", { src: "/static/plotly.js" });
    script.addEventListener("load", () => done(window.Plotly));
    script.addEventListener("error", () => failed(new Error("the chart library did not load")));
    document.head.append(script);
  });
  return library;
}

// ---- what is asked for in one go travels in one request

const waiting = new Map();
export function signal(id, name, lo = null, hi = null) {
  const key = `${id}|${lo}|${hi}`;
  let batch = waiting.get(key);
  if (!batch) {
    batch = { names: new Set() };
    batch.answer = new Promise((done, failed) => setTimeout(() => {
      waiting.delete(key);
      const query = new URLSearchParams([...batch.names].map((n) => ["name", n]));
      query.set("points", lo === null ? POINTS : 2000);
      if (lo !== null) { query.set("lo", lo); query.set("hi", hi); }
      get(`/api/run/${id}/signals?${query}`).then((got) => done(new Map(got.signals.map((s) => [s.name, s]))), failed);
    }, 0));
    waiting.set(key, batch);
  }
  batch.names.add(name);
  return batch.answer.then((got) => got.get(name));
}

// ---- the queue: a few milliseconds per frame, so that scrolling stays smooth while many update

const queue = [];
let running = false;
function later(state) {
  if (!queue.includes(state)) queue.push(state);
  if (running) return;
  running = true;
  const turn = async () => {
    const begun = performance.now();
    do {
      const next = queue.shift();
      if (!next) { running = false; loadSoon(); return; }
      await paint(next);
    } while (performance.now() - begun < FRAME_MS);
    requestAnimationFrame(turn);
  };
  requestAnimationFrame(turn);
}

// The library is fetched once everything has been drawn, so that the first who points does not wait for it.
function loadSoon() {
  if (!interactive || library) return;
  const idle = window.requestIdleCallback ?? ((work) => setTimeout(work, 300));
  idle(() => { plotly().catch(() => {}); });
}

const observer = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    const chart = mounted.get(entry.target);
    if (!chart) continue;
    chart.visible = entry.isIntersecting;
    if (entry.isIntersecting && chart.stale) draw(chart);
  }
}, { rootMargin: "150px" });

const sizes = new ResizeObserver((entries) => {
  for (const { target, contentRect } of entries) {
    const state = mounted.get(target.parentElement);
    if (state?.data && !state.live && Math.abs(contentRect.width - state.width) > 1) later(state);
  }
});

export function layout(more = {}) {
  const axis = { gridcolor: colour("--line"), zerolinecolor: colour("--line"), automargin: true };
  return {
    margin: { l: 52, r: 12, t: 8, b: 32 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false,
    font: { color: colour("--ink"), size: 11.5, family: "system-ui, sans-serif" }, uirevision: "kept", modebar: { orientation: "v", bgcolor: "rgba(0,0,0,0)", color: colour("--soft"), activecolor: colour("--ink") }, ...more,
    xaxis: { ...axis, ...(more.xaxis ?? {}) }, yaxis: { ...axis, ...(more.yaxis ?? {}) },
  };
}

export function line(x, y, name, index = 0) {
  const kinds = ["--a", "--b", "--c", "--d"];
  return { x, y, name: plain(name), meta: String(name), type: "scatter", mode: x.length < 60 ? "lines+markers" : "lines", line: { color: colour(kinds[index % 4]), width: 1.6 }, marker: { size: 5 } };
}

export function bar(x, y) {
  return { x, y, type: "bar", marker: { color: colour("--a") } };
}

// fetchData(lo, hi) gives {kind, x, y, z} or {kind, traces}; marks are {steps, severity} to shade, band the healthy range.
export function chart(title, fetchData, { wide = false, marks = [], band = null, hint = "" } = {}) {
  const plot = el("div", { class: "plot", role: "img", "aria-label": `${title}. ${hint}` });
  const node = el("div", { class: wide ? "card wide" : "card" }, el("h4", { title: hint }, title), plot);
  const state = { plot, fetchData, marks, band, stale: true, visible: false, busy: false, range: null, data: null, live: false, width: 0, title, hint };
  mounted.set(node, state);
  observer.observe(node);
  sizes.observe(plot);
  if (interactive) for (const kind of ["pointerenter", "pointerdown"]) plot.addEventListener(kind, () => enliven(state));
  return node;
}

export function refreshCharts() {
  for (const state of mounted.values()) {
    state.stale = true;
    if (state.visible) draw(state);
  }
}

export function redrawCharts() { for (const state of mounted.values()) if (state.data) later(state); }

export function forgetCharts() {
  queue.length = 0;
  for (const [node, state] of mounted) { observer.unobserve(node); sizes.unobserve(state.plot); if (state.live) window.Plotly.purge(state.plot); }
  alive.length = 0;
  mounted.clear();
}

async function draw(state) {
  if (state.busy) return;
  state.busy = true;
  state.stale = false;
  try {
    const [lo, hi] = state.range ?? [null, null];
    state.data = await state.fetchData(lo, hi);
    later(state);
  } catch (error) {
    state.plot.textContent = `Could not be drawn: ${error.message}`;
  } finally {
    state.busy = false;
    if (state.stale && state.visible) draw(state);
  }
}

function shapes(state, log) {
  const out = [];
  if (state.band) {
    const [lo, hi] = state.band;
    out.push({ type: "rect", layer: "below", xref: "paper", yref: "y", x0: 0, x1: 1, y0: log && lo <= 0 ? 1e-12 : lo, y1: hi, fillcolor: colour("--good"), opacity: 0.13, line: { width: 0 } });
  }
  for (const { steps: [a, b], severity, code = "" } of state.marks) {
    out.push({ type: "rect", layer: "below", xref: "x", yref: "paper", x0: a, x1: Math.max(b, a + 1e-9), y0: 0, y1: 1, fillcolor: colour(`--${severity}`), opacity: 0.13, line: { width: 1, color: colour(`--${severity}`) }, label: { text: code, textposition: "top left", font: { color: colour(`--${severity}`), size: 11.5 } } });
  }
  return out;
}

function heightOf(data) { return Math.min(640, Math.max(200, 60 + 15 * data.y.length)); }

// What is drawn, whoever draws it: {kind: "heat", …} or {traces, log}.
function normal(data) {
  if (data.kind === "heat") return data;
  const traces = data.traces ?? [line(data.x, data.y, data.name)];
  let lo = Infinity, hi = -Infinity;
  for (const t of traces) for (const v of t.y) if (v !== null && Number.isFinite(v)) { if (v < lo) lo = v; if (v > hi) hi = v; }
  return { traces, log: data.log ?? (lo > 0 && hi < Infinity && hi > 100 * lo) };
}

function picture(state, data) {
  const xaxis = state.range ? { range: state.range } : {};
  if (data.kind === "heat") {
    const z = data.log ? data.z.map((row) => row.map((v) => (v === null || v <= 0 ? null : Math.log10(v)))) : data.z;
    const trace = { x: data.x, y: data.y.map(plain), z, customdata: data.z, type: "heatmap", colorscale: scale(), colorbar: { thickness: 8, title: { text: data.log ? "log10" : "" } }, hovertemplate: "step %{x}<br>%{y}<br>%{customdata}<extra></extra>" };
    return [[trace], layout({ yaxis: { autorange: "reversed", type: "category", tickfont: { size: 10 } }, xaxis })];
  }
  const many = data.traces.length > 1;
  return [data.traces, layout({ shapes: shapes(state, data.log), showlegend: many, legend: { orientation: "h", y: 1.14 }, margin: { l: 52, r: 12, t: many ? 26 : 8, b: 26 }, xaxis, yaxis: { type: data.log ? "log" : "linear" } })];
}

function told(data) {
  if (data.kind === "heat") return `${data.y.length} rows over ${data.x.length} steps`;
  return data.traces.map((t) => `${t.meta ?? ""} ends at ${number(t.y[t.y.length - 1])}`).join("; ");
}

async function paint(state) {
  if (!state.plot.isConnected) return;
  try {
    const data = normal(state.data);
    if (data.kind === "heat") state.plot.style.height = `${heightOf(data)}px`;
    if (state.live) await window.Plotly.react(state.plot, ...picture(state, data), OPTIONS);
    else sketch(state.plot, data, state);
    state.width = state.plot.clientWidth;
    state.plot.setAttribute("aria-label", `${state.title}. ${state.hint}. ${told(data)}`);
    state.plot.dataset.drawn = String(Number(state.plot.dataset.drawn ?? 0) + 1);
  } catch (error) {
    state.plot.textContent = `Could not be drawn: ${error.message}`;
  }
}

// ---- from a drawing to an interactive chart, and back when others are looked at

const alive = [];
async function enliven(state) {
  if (state.live || !state.data) return;
  try {
    await plotly();
  } catch {
    return; // the drawing stays
  }
  if (state.live || !state.plot.isConnected) return;
  state.live = true;
  state.plot.replaceChildren();
  await paint(state);
  state.plot.on("plotly_relayout", (change) => {
    const lo = change["xaxis.range[0]"], hi = change["xaxis.range[1]"];
    if (lo !== undefined && hi !== undefined) { state.range = [Number(lo), Number(hi)]; draw(state); }
    else if (change["xaxis.autorange"]) { state.range = null; draw(state); }
  });
  alive.push(state);
  const old = alive.length > MOST_LIVE ? alive.findIndex((s) => !s.range && s !== state) : -1;
  if (old < 0) return;
  const [rested] = alive.splice(old, 1);
  window.Plotly.purge(rested.plot);
  rested.live = false;
  later(rested);
}
