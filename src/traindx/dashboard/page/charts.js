// Charts are mounted when they come into view and re-fetch their data when the user zooms.
import { el } from "./app.js";

const mounted = new Map();
const observer = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    const chart = mounted.get(entry.target);
    if (!chart) continue;
    chart.visible = entry.isIntersecting;
    if (entry.isIntersecting && chart.stale) draw(chart);
  }
}, { rootMargin: "150px" });

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const OPTIONS = { displaylogo: false, responsive: true, modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"] };

export function layout(more = {}) {
  const axis = { gridcolor: colour("--line"), zerolinecolor: colour("--line"), automargin: true };
  return {
    margin: { l: 60, r: 14, t: 8, b: 34 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false,
    font: { color: colour("--ink"), size: 11, family: "system-ui, sans-serif" }, ...more,
    xaxis: { ...axis, ...(more.xaxis ?? {}) }, yaxis: { ...axis, ...(more.yaxis ?? {}) },
  };
}

export function line(x, y, name, index = 0) {
  const kinds = ["--a", "--b", "--c", "--d"];
  return { x, y, name, type: "scatter", mode: x.length < 60 ? "lines+markers" : "lines", line: { color: colour(kinds[index % 4]), width: 1.6 }, marker: { size: 5 } };
}

// fetchData(lo, hi) gives {kind, x, y, z}; marks are [lo, hi] step ranges to shade.
export function chart(title, fetchData, { wide = false, marks = [], hint = "" } = {}) {
  const plot = el("div", { class: "plot", role: "img", "aria-label": `${title}. ${hint}` });
  const node = el("div", { class: wide ? "card wide" : "card" }, el("h4", { title: hint }, title), plot);
  const state = { plot, fetchData, marks, stale: true, visible: false, busy: false, range: null };
  mounted.set(node, state);
  observer.observe(node);
  return node;
}

export function refreshCharts() {
  for (const state of mounted.values()) {
    state.stale = true;
    if (state.visible) draw(state);
  }
}

export function redrawCharts() { refreshCharts(); }

export function forgetCharts() {
  for (const [node, state] of mounted) { observer.unobserve(node); window.Plotly?.purge(state.plot); }
  mounted.clear();
}

async function draw(state) {
  if (state.busy) return;
  state.busy = true;
  state.stale = false;
  try {
    const [lo, hi] = state.range ?? [null, null];
    const data = await state.fetchData(lo, hi);
    const shapes = state.marks.map(([a, b]) => ({ type: "rect", xref: "x", yref: "paper", x0: a, x1: b, y0: 0, y1: 1, fillcolor: colour("--critical"), opacity: 0.12, line: { width: 0 } }));
    if (data.kind === "heat") {
      const z = data.z.map((row) => row.map((v) => (v === null || v <= 0 ? null : Math.log10(v))));
      state.plot.style.height = `${Math.min(640, Math.max(240, 60 + 15 * data.y.length))}px`;
      const trace = { x: data.x, y: data.y, z, customdata: data.z, type: "heatmap", colorscale: "Viridis", colorbar: { thickness: 8, title: { text: "log10" } }, hovertemplate: "step %{x}<br>%{y}<br>%{customdata}<extra></extra>" };
      await window.Plotly.react(state.plot, [trace], layout({ yaxis: { autorange: "reversed", tickfont: { size: 9 } } }), OPTIONS);
    } else {
      const traces = data.traces ?? [line(data.x, data.y, data.name)];
      const values = traces.flatMap((t) => t.y).filter((v) => v !== null);
      const log = values.length > 0 && Math.min(...values) > 0 && Math.max(...values) > 100 * Math.min(...values);
      const more = { shapes, showlegend: traces.length > 1, legend: { orientation: "h", y: 1.12 }, yaxis: { type: data.log ?? log ? "log" : "linear" } };
      if (state.range) more.xaxis = { range: state.range };
      await window.Plotly.react(state.plot, traces, layout(more), OPTIONS);
    }
    if (!state.listening) {
      state.listening = true;
      state.plot.on("plotly_relayout", (change) => {
        const lo = change["xaxis.range[0]"], hi = change["xaxis.range[1]"];
        if (lo !== undefined && hi !== undefined) { state.range = [Number(lo), Number(hi)]; draw(state); }
        else if (change["xaxis.autorange"]) { state.range = null; draw(state); }
      });
    }
  } catch (error) {
    state.plot.textContent = `Could not be drawn: ${error.message}`;
  } finally {
    state.busy = false;
    if (state.stale && state.visible) draw(state);
  }
}
