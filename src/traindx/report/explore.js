"use strict";
(async () => {
  const place = document.getElementById("traindx-explore");
  const packed = document.getElementById("traindx-plotly");
  if (!place || !packed || typeof DecompressionStream === "undefined") return;
  const figures = JSON.parse(document.getElementById("traindx-figures").textContent);
  const bytes = Uint8Array.from(atob(packed.textContent), (c) => c.charCodeAt(0));
  const source = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  const script = document.createElement("script");
  script.src = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  script.onload = () => build(figures);
  document.head.append(script);

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function layout(title) {
    return {
      title: { text: title, font: { size: 14 }, x: 0.01, xanchor: "left" },
      margin: { l: 70, r: 20, t: 36, b: 36 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: colour("--ink"), size: 12 }, xaxis: { gridcolor: colour("--line") }, yaxis: { gridcolor: colour("--line"), automargin: true },
    };
  }

  function draw(node, figure) {
    const options = { displaylogo: false, responsive: true, modeBarButtonsToRemove: ["lasso2d", "select2d"] };
    if (figure.kind === "line") {
      const trace = { x: figure.x, y: figure.y, type: "scatter", mode: figure.x.length < 40 ? "lines+markers" : "lines", line: { color: colour("--a"), width: 1.5 } };
      Plotly.newPlot(node, [trace], layout(figure.name), options);
    } else {
      const z = figure.z.map((row) => row.map((v) => (v === null || v <= 0 ? null : Math.log10(v))));
      const trace = { x: figure.x, y: figure.y, z, type: "heatmap", colorscale: "Viridis", colorbar: { title: { text: "log10" }, thickness: 10 } };
      Plotly.newPlot(node, [trace], layout(figure.name), options);
      node.style.height = `${Math.max(280, 60 + 14 * figure.y.length)}px`;
    }
  }

  function build(all) {
    const seen = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        seen.unobserve(entry.target);
        draw(entry.target, all[Number(entry.target.dataset.index)]);
      }
    }, { rootMargin: "200px" });
    all.forEach((figure, index) => {
      const node = document.createElement("div");
      node.className = "plot card";
      node.dataset.index = String(index);
      node.setAttribute("role", "img");
      node.setAttribute("aria-label", figure.name);
      place.append(node);
      seen.observe(node);
    });
  }
})();
