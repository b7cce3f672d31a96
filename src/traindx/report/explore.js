"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("scripted");
  const make = (tag, attributes, ...children) => {
    const node = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes ?? {})) node.setAttribute(key, value);
    node.append(...children);
    return node;
  };

  // Prescriptions and commands: a button that copies exactly the text.
  async function copy(text, button) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = make("textarea", { "aria-hidden": "true" });
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    button.textContent = "copied";
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  }
  for (const place of document.querySelectorAll(".copy")) {
    const button = make("button", { type: "button", class: "copies", "aria-label": "Copy" }, "copy");
    const text = place.textContent;
    button.addEventListener("click", () => copy(text, button));
    place.after(button);
  }

  // A chart that is linked to may lie in a folded part.
  function unfold() {
    const wanted = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let node = wanted; node; node = node.parentElement) if (node instanceof HTMLDetailsElement) node.open = true;
    if (wanted) wanted.scrollIntoView();
  }
  window.addEventListener("hashchange", unfold);
  window.addEventListener("beforeprint", () => { for (const d of document.querySelectorAll("details:not(.signals)")) d.open = true; });

  const place = document.getElementById("traindx-explore");
  const packed = document.getElementById("traindx-plotly");
  if (!place || !packed || typeof DecompressionStream === "undefined") return;
  const figures = JSON.parse(document.getElementById("traindx-figures").textContent);
  const drawn = new Map();
  let library = null;

  function plotly() {
    library ??= (async () => {
      const bytes = Uint8Array.from(atob(packed.textContent), (c) => c.charCodeAt(0));
      const source = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
      const script = document.createElement("script");
      script.src = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
      await new Promise((done, failed) => { script.onload = done; script.onerror = failed; document.head.append(script); });
      return window.Plotly;
    })();
    return library;
  }

  const plain = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;"); // plotly reads a little HTML in labels
  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const scale = () => Array.from({ length: 9 }, (_, i) => [i / 8, colour(`--h${i}`)]);

  function picture(figure) {
    const axis = { gridcolor: colour("--line"), zerolinecolor: colour("--line"), automargin: true };
    const layout = {
      margin: { l: 56, r: 12, t: 8, b: 34 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false,
      font: { color: colour("--ink"), size: 11.5, family: "system-ui, sans-serif" }, xaxis: { ...axis }, yaxis: { ...axis },
    };
    if (figure.kind === "line") {
      const known = figure.y.filter((v) => v !== null);
      if (known.length && Math.min(...known) > 0 && Math.max(...known) > 100 * Math.min(...known)) layout.yaxis.type = "log";
      return [[{ x: figure.x, y: figure.y, type: "scatter", mode: figure.x.length < 40 ? "lines+markers" : "lines", line: { color: colour("--a"), width: 1.6 } }], layout];
    }
    if (figure.kind === "surface") {
      layout.scene = { xaxis: { title: { text: "α" } }, yaxis: { title: { text: "β" } }, zaxis: { title: { text: "loss" } } };
      return [[{ x: figure.x, y: figure.y, z: figure.z, type: "surface", colorscale: scale(), showscale: false, contours: { z: { show: true, usecolormap: true, project: { z: true } } } }], layout];
    }
    const z = figure.log ? figure.z.map((row) => row.map((v) => (v === null || v <= 0 ? null : Math.log10(v)))) : figure.z;
    layout.yaxis = { ...layout.yaxis, autorange: "reversed", type: "category" };
    return [[{ x: figure.x, y: figure.y.map(plain), z, customdata: figure.z, type: "heatmap", colorscale: scale(), colorbar: { thickness: 8, title: { text: figure.log ? "log10" : "" } }, hovertemplate: "step %{x}<br>%{y}<br>%{customdata}<extra></extra>" }], layout];
  }

  async function draw(node, figure) {
    const Plotly = await plotly();
    const [traces, layout] = picture(figure);
    if (figure.kind === "heat") node.style.height = `${Math.min(720, Math.max(220, 60 + 15 * figure.y.length))}px`;
    if (figure.kind === "surface") node.style.height = "480px";
    await Plotly.react(node, traces, layout, { displaylogo: false, responsive: true, modeBarButtonsToRemove: ["lasso2d", "select2d"] });
    drawn.set(node, figure);
  }

  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      seen.unobserve(entry.target);
      draw(entry.target, figures[Number(entry.target.dataset.index)]);
    }
  }, { rootMargin: "150px" });

  const cards = [];
  const groups = new Map();
  figures.forEach((figure, index) => {
    if (!groups.has(figure.group)) groups.set(figure.group, []);
    const plot = make("div", { class: "plot", role: "img", "aria-label": `${figure.name}. ${figure.meaning}`, "data-index": index });
    const card = make("div", { class: figure.kind === "line" ? "card" : "card wide" }, make("h4", { title: figure.meaning }, figure.name), plot);
    groups.get(figure.group).push(card);
    cards.push([figure.name.toLowerCase(), card]);
    seen.observe(plot);
  });
  const search = make("input", { type: "search", placeholder: "Find a signal", "aria-label": "Find a signal" });
  place.append(make("div", { class: "toolbar" }, search, make("span", { class: "soft small" }, "Drag to zoom, double-click to go back.")));
  const folds = [];
  for (const [title, members] of groups) {
    const fold = make("details", { class: "signals" }, make("summary", {}, `${title} (${members.length})`), make("div", { class: "explorer" }, ...members));
    folds.push(fold);
    place.append(fold);
  }
  if (folds.length) folds[0].open = true;
  search.addEventListener("input", () => {
    const wanted = search.value.toLowerCase();
    for (const [name, card] of cards) card.hidden = !name.includes(wanted);
    for (const fold of folds) { const some = [...fold.querySelectorAll(".card")].some((c) => !c.hidden); fold.hidden = !some; if (wanted) fold.open = some; }
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { for (const [node, figure] of drawn) draw(node, figure); });
})();
