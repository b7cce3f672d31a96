// A chart as a drawing: a thousandth of the work of an interactive one, so it is there at once and can be renewed every second.
import { number } from "./parts.js";

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const make = (tag, attributes, text = null) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, String(value));
  if (text !== null) node.textContent = text;
  return node;
};

// ---- axes

function linear(lo, hi, room) {
  const raw = (hi - lo) / Math.max(1, room), power = 10 ** Math.floor(Math.log10(raw));
  const step = power * ([1, 2, 5].find((k) => k * power >= raw) ?? 10);
  const out = [];
  for (let v = Math.ceil(lo / step - 1e-9) * step; v <= hi + 1e-9 * step; v += step) out.push(Math.abs(v) < 1e-9 * step ? 0 : v);
  return out;
}

function decades(lo, hi, room) {
  const a = Math.floor(Math.log10(lo)), b = Math.ceil(Math.log10(hi)), every = Math.max(1, Math.ceil((b - a) / room)), kinds = b - a <= 2 ? [1, 2, 5] : [1];
  const out = [];
  for (let k = a; k <= b; k += every) for (const m of kinds) { const v = Number(`${m}e${k}`); if (v >= lo && v <= hi) out.push(v); }
  return out.length > 2 ? out : linear(lo, hi, room); // less than a decade
}

const power = (v) => v.toExponential().replace(/(\.\d\d)\d+/, "$1").replace("e+", "e");
const brief = (v, log = false) => {
  const size = Math.abs(v);
  if (log && size >= 1e4) return power(v);
  if (size >= 1e6 && size < 1e9) return `${Number((v / 1e6).toPrecision(4))}M`;
  if (size >= 1e4 && size < 1e6) return `${Number((v / 1e3).toPrecision(4))}k`;
  if (size !== 0 && (size < 1e-3 || size >= 1e9)) return power(v);
  return String(Number(v.toPrecision(4)));
};

function bounds(values) {
  let lo = Infinity, hi = -Infinity;
  for (const v of values) if (v !== null && Number.isFinite(v)) { if (v < lo) lo = v; if (v > hi) hi = v; }
  return lo <= hi ? [lo, hi] : [0, 1];
}

// ---- lines and bars

// Draws {traces, log} or {kind: "heat", …} into the box; marks and band as in charts.js.
export function sketch(box, data, { marks = [], band = null, range = null } = {}) {
  const width = box.clientWidth, height = box.clientHeight;
  if (!width || !height) return;
  if (data.kind === "heat") { heat(box, data, width, height); return; }
  const legend = data.traces.length > 1, edge = { l: 52, r: 12, t: legend ? 26 : 8, b: 26 };
  const svg = make("svg", { width, height, class: "sketch", "aria-hidden": "true" });
  const bars = data.traces.some((t) => t.type === "bar");
  let [x0, x1] = range ?? bounds(data.traces.flatMap((t) => t.x));
  if (bars) { const gap = (x1 - x0) / Math.max(1, data.traces[0].x.length - 1); x0 -= gap / 2; x1 += gap / 2; }
  if (x1 <= x0) { x0 -= 0.5; x1 += 0.5; }
  const seen = bounds(data.traces.flatMap((t) => t.y.filter((v) => v > 0 || !data.log)));
  let [y0, y1] = seen;
  const up = data.log ? Math.log10 : (v) => v;
  if (bars) y0 = Math.min(0, y0);
  if (y1 <= y0) { const half = data.log ? y0 / 2 : Math.abs(y0) / 2 || 0.5; y0 -= half; y1 += half; }
  const pad = (bars ? 0 : 0.05) * (up(y1) - up(y0)), bottom = up(y0) - pad, top = up(y1) + 0.05 * (up(y1) - up(y0));
  const X = (x) => edge.l + ((x - x0) / (x1 - x0)) * (width - edge.l - edge.r);
  const Y = (y) => height - edge.b - ((up(y) - bottom) / (top - bottom)) * (height - edge.t - edge.b);
  const clip = (v, lo, hi) => Math.min(hi, Math.max(lo, v));
  const line = colour("--line"), soft = colour("--soft"), names = [];
  if (band) {
    const a = clip(Y(data.log && band[0] <= 0 ? 1e-300 : band[0]), edge.t, height - edge.b), b = clip(Y(band[1]), edge.t, height - edge.b);
    if (a > b) svg.append(make("rect", { x: edge.l, width: width - edge.l - edge.r, y: b, height: a - b, fill: colour("--good"), opacity: 0.13 }));
  }
  for (const { steps: [a, b], severity, code = "" } of marks) {
    const left = clip(X(a), edge.l, width - edge.r), right = clip(X(b), edge.l, width - edge.r);
    svg.append(make("rect", { x: left, width: Math.max(1.5, right - left), y: edge.t, height: height - edge.t - edge.b, fill: colour(`--${severity}`), "fill-opacity": 0.13, stroke: colour(`--${severity}`), "stroke-width": 1 }));
    names.push(make("text", { x: Math.min(left + 5, width - edge.r - 60), y: edge.t + 14 + 14 * names.length, fill: colour(`--${severity}`), "font-weight": 600 }, code));
  }
  const ys = data.log ? decades(10 ** bottom, 10 ** top, 6) : linear(bottom, top, 6);
  for (const v of ys) {
    const y = Y(v).toFixed(1);
    svg.append(make("line", { x1: edge.l, x2: width - edge.r, y1: y, y2: y, stroke: line }), make("text", { x: edge.l - 6, y: Number(y) + 4, "text-anchor": "end", fill: soft }, brief(v, data.log)));
  }
  for (const v of linear(x0, x1, Math.max(2, Math.floor((width - edge.l) / 90)))) {
    const x = X(v).toFixed(1);
    svg.append(make("line", { x1: x, x2: x, y1: edge.t, y2: height - edge.b, stroke: line, opacity: 0.6 }), make("text", { x, y: height - edge.b + 16, "text-anchor": Number(x) > width - 24 ? "end" : "middle", fill: soft }, brief(v)));
  }
  let at = edge.l;
  data.traces.forEach((trace) => {
    const tint = trace.line?.color ?? trace.marker?.color;
    if (trace.type === "bar") {
      const wide = ((width - edge.l - edge.r) / trace.x.length) * 0.82;
      trace.x.forEach((x, j) => { const y = Y(trace.y[j] ?? 0); svg.append(make("rect", { x: X(x) - wide / 2, width: wide, y, height: Math.max(0, Y(0) - y), fill: tint })); });
    } else svg.append(...curve(trace, X, Y, tint, range, data.log));
    if (!legend) return;
    const name = trace.meta ?? trace.name;
    svg.append(make("line", { x1: at, x2: at + 14, y1: 11, y2: 11, stroke: tint, "stroke-width": 2 }), make("text", { x: at + 18, y: 15, fill: colour("--ink") }, name));
    at += 34 + 6.3 * name.length;
  });
  svg.append(...names);
  box.replaceChildren(svg);
}

function curve(trace, X, Y, tint, range, log) {
  const few = trace.x.length < 60;
  const out = [];
  let path = "", pen = "M";
  trace.x.forEach((x, i) => {
    const y = trace.y[i];
    if (y === null || !Number.isFinite(y) || (log && y <= 0)) { pen = "M"; return; }
    if (range && (x < range[0] || x > range[1])) return;
    const at = `${X(x).toFixed(1)} ${Y(y).toFixed(1)}`;
    path += pen + at;
    pen = "L";
    if (few) { const [cx, cy] = at.split(" "); out.push(make("circle", { cx, cy, r: 2.5, fill: tint })); }
  });
  return [make("path", { d: path, fill: "none", stroke: tint, "stroke-width": 1.6, "stroke-linejoin": "round" }), ...out];
}

// ---- layer by step

function heat(box, data, width, height) {
  const longest = Math.max(...data.y.map((n) => n.length), 1), left = Math.min(0.42 * width, 14 + 6 * longest);
  const edge = { l: left, r: 62, t: 8, b: 26 }, inner = { w: Math.max(1, width - edge.l - edge.r), h: height - edge.t - edge.b };
  const svg = make("svg", { width, height, class: "sketch", "aria-hidden": "true" }), canvas = document.createElement("canvas");
  const fine = Math.min(2, window.devicePixelRatio || 1);
  canvas.width = Math.round(inner.w * fine);
  canvas.height = Math.round(inner.h * fine);
  Object.assign(canvas.style, { left: `${edge.l}px`, top: `${edge.t}px`, width: `${inner.w}px`, height: `${inner.h}px` });
  const pen = canvas.getContext("2d"), tints = Array.from({ length: 9 }, (_, i) => colour(`--h${i}`));
  const value = (v) => (v === null || !Number.isFinite(v) || (data.log && v <= 0) ? null : data.log ? Math.log10(v) : v);
  const [lo, hi] = bounds(data.z.flat().map(value)), size = hi - lo || 1, n = data.x.length, rows = data.y.length;
  const first = data.x[0], span = data.x[n - 1] - first || 1;
  const at = (i) => (n === 1 ? [0, 1][i] : i <= 0 ? 0 : i >= n ? 1 : ((data.x[i - 1] + data.x[i]) / 2 - first) / span);
  for (let r = 0; r < rows; r += 1) {
    const y = Math.floor((r / rows) * canvas.height), tall = Math.ceil(((r + 1) / rows) * canvas.height) - y;
    for (let i = 0; i < n; i += 1) {
      const v = value(data.z[r][i]);
      if (v === null) continue;
      const x = Math.floor(at(i) * canvas.width);
      pen.fillStyle = tints[Math.round((8 * (v - lo)) / size)];
      pen.fillRect(x, y, Math.ceil(at(i + 1) * canvas.width) - x, tall);
    }
  }
  const every = Math.max(1, Math.ceil((11 * rows) / inner.h)), most = Math.max(4, Math.floor((left - 14) / 6)), soft = colour("--soft");
  data.y.forEach((name, r) => {
    if (r % every) return;
    const text = make("text", { x: edge.l - 6, y: edge.t + ((r + 0.5) / rows) * inner.h + 3.5, "text-anchor": "end", fill: soft, "font-size": 10 }, name.length > most ? `…${name.slice(1 - most)}` : name);
    text.append(make("title", {}, name));
    svg.append(text);
  });
  for (const v of linear(first, first + span, Math.max(2, Math.floor(inner.w / 90)))) svg.append(make("text", { x: edge.l + ((v - first) / span) * inner.w, y: height - edge.b + 16, "text-anchor": "middle", fill: soft }, brief(v)));
  const tall = Math.min(160, inner.h);
  tints.forEach((tint, i) => svg.append(make("rect", { x: width - edge.r + 12, width: 8, y: edge.t + tall * (1 - (i + 1) / 9), height: tall / 9 + 0.5, fill: tint })));
  const shown = (v) => number(data.log ? 10 ** v : v).replace(/\.?0+e/, "e");
  svg.append(make("text", { x: width - edge.r + 24, y: edge.t + 9, fill: soft, "font-size": 10 }, shown(hi)), make("text", { x: width - edge.r + 24, y: edge.t + tall, fill: soft, "font-size": 10 }, shown(lo)));
  box.replaceChildren(svg, canvas);
}
