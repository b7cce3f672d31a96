// Four things to play with: real loss curves, gradient scale by depth, living units, weight shapes.
import { el, get, number, badge } from "./parts.js";
import { bar, chart, line, refreshCharts } from "./charts.js";

function select(label, options, value, changed) {
  const node = el("select", { onchange: () => changed(node.value) }, options.map((o) => el("option", { value: o, selected: o === value }, o)));
  return el("label", {}, label, node);
}

function slider(label, min, max, step, value, changed, show = (v) => v) {
  const out = el("output", {}, show(value));
  const node = el("input", { type: "range", min, max, step, value, oninput: () => { out.textContent = show(Number(node.value)); }, onchange: () => changed(Number(node.value)) });
  return el("label", {}, el("span", {}, `${label} `, out), node);
}

// A slider, or where only some values have an answer (pages without a server) a choice among those; one value needs no control.
function dial(label, offered, [min, max, step], value, changed, show = (v) => v) {
  if (!offered) return slider(label, min, max, step, value, changed, show);
  return offered.length < 2 ? null : select(label, offered.map(String), String(value), (v) => changed(Number(v)));
}

export async function galleryView(main) {
  const { cases } = await get("/api/explore/gallery");
  let shown = cases[0];
  const said = el("div", { role: "status" });
  const tell = () => said.replaceChildren(el("h3", {}, shown.title), el("p", {}, shown.signature), el("p", { class: "soft small" }, badge(shown.verdict), ` ${shown.summary}`), el("p", { class: "soft small" }, `A real run of the clinic: ${shown.program}. Findings: ${shown.findings.join(", ") || "none"}.`));
  const buttons = cases.map((c) => el("button", { type: "button", class: "chip", "aria-pressed": String(c === shown), onclick: () => { shown = c; buttons.forEach((b, i) => b.setAttribute("aria-pressed", String(cases[i] === c))); tell(); refreshCharts(); } }, c.title));
  tell();
  const picture = (title, names, hint) => chart(title, async () => ({ kind: "line", traces: names.filter((n) => shown.curves[n]).map((n, i) => line(shown.curves[n].x, shown.curves[n].y, n, i)) }), { hint });
  main.replaceChildren(
    el("h1", {}, "What loss curves say"),
    el("p", { class: "soft" }, "Each of these programs was really trained and recorded. Pick one and look for its signature."),
    el("div", { class: "toolbar" }, ...buttons), said,
    el("div", { class: "grid" }, picture("Loss", ["loss/train", "loss/val"], "training and validation loss"), picture("Gradient norm", ["grad_norm"], "norm of all gradients"), picture("Learning rate", ["lr"], "learning rate"), picture("Update size", ["update_ratio"], "updates relative to the weights; healthy between 1e-4 and 1e-2")),
  );
}

export async function gradientsView(main, offered = {}) {
  const now = { activation: "relu", init: "he", depth: 30, width: 128, norm: "none", residual: "no" };
  const said = el("p", { role: "status", class: "said" });
  const ask = () => get(`/api/explore/gradients?${new URLSearchParams(now)}`);
  let latest = ask();
  const tell = (d) => { said.textContent = d.verdict; };
  const again = (key) => (value) => { now[key] = value; latest = ask(); latest.then(tell); refreshCharts(); };
  latest.then(tell);
  const picture = (title, key, hint) => chart(title, async () => { const d = await latest; return { kind: "line", log: true, traces: [line(d.layers, d[key], title, 0)] }; }, { hint });
  main.replaceChildren(
    el("h1", {}, "Gradient health by depth"),
    el("p", { class: "soft" }, "One forward and one backward pass of a random net, really computed. What reaches the first layers?"),
    el("div", { class: "controls" }, select("activation", ["relu", "leaky-relu", "gelu", "tanh", "sigmoid", "linear"], now.activation, again("activation")), select("initialisation", ["he", "xavier", "uniform", "zero", "small", "large"], now.init, again("init")),
      select("normalisation", ["none", "layer"], now.norm, again("norm")), select("residuals", ["no", "yes"], now.residual, again("residual")), dial("depth", offered.depth, [1, 100, 1], now.depth, again("depth")), dial("width", offered.width, [8, 512, 8], now.width, again("width"))),
    said, el("div", { class: "grid" }, picture("signal (RMS) by layer", "forward", "forward scale"), picture("gradient of the weights by layer", "weight_gradient", "gradient scale")),
  );
}

export async function unitsView(main, offered = {}) {
  const now = { lr: 0.01, bias: 0, depth: 6, width: 64 };
  const said = el("p", { role: "status", class: "said" });
  const ask = () => get(`/api/explore/units?${new URLSearchParams(now)}`);
  let latest = ask();
  const tell = (d) => { said.textContent = d.diverged ? "The loss ran away: the learning rate is too high." : `${Math.round(100 * Math.min(...d.alive))} % of the units of the worst layer still fire after training.`; };
  const again = (key) => (value) => { now[key] = value; latest = ask(); latest.then(tell); refreshCharts(); };
  latest.then(tell);
  main.replaceChildren(
    el("h1", {}, "Living units"),
    el("p", { class: "soft" }, "A small ReLU net really learns by plain gradient descent. A unit is alive if any of 256 samples makes it fire."),
    el("div", { class: "controls" }, dial("learning rate 10^", offered.power, [-3, 1.5, 0.1], -2, (v) => again("lr")(10 ** v), (v) => v.toFixed(1)), dial("initial bias", offered.bias, [-3, 3, 0.1], 0, again("bias")), dial("depth", offered.depth, [1, 12, 1], 6, again("depth")), dial("width", offered.width, [8, 128, 8], 64, again("width"))),
    said,
    el("div", { class: "grid" },
      chart("share of living units by layer", async () => { const d = await latest; return { kind: "line", log: false, traces: [bar(d.layers, d.alive)] }; }, { hint: "after training" }),
      chart("loss", async () => { const d = await latest; return { kind: "line", traces: [line(d.loss.map((_, i) => i), d.loss, "loss")] }; }, { hint: "over the steps" }),
      chart("living units over time, by layer", async () => { const d = await latest; return { kind: "line", log: false, traces: d.layers.slice(0, 4).map((l, i) => line(d.history.map((_, t) => t), d.history.map((h) => h[l - 1]), `layer ${l}`, i)) }; }, { hint: "first four layers" })),
  );
}

export async function weightsView(main) {
  const shapes = await get("/api/explore/weights");
  main.replaceChildren(
    el("h1", {}, "Weight shapes"),
    el("p", { class: "soft" }, "The second layer of one small net, trained well and in three ways that spoil it: what its weights look like then."),
    el("div", { class: "grid" }, Object.entries(shapes).map(([name, s]) => {
      const card = chart(name, async () => ({ kind: "line", log: false, traces: [bar(s.counts.map((_, i) => (s.edges[i] + s.edges[i + 1]) / 2), s.counts)] }), { hint: s.says });
      card.append(el("p", { class: "small" }, s.says), el("p", { class: "soft small" }, `${s.how}; standard deviation ${number(s.std)}, kurtosis ${number(s.kurtosis)}`));
      return card;
    })),
  );
}
