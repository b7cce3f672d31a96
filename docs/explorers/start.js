// The explorers of the dashboard without a server: every answer was computed beforehand and comes in one file.
import { answerFrom } from "./parts.js";
import { drawOnly } from "./charts.js";
import { galleryView, gradientsView, unitsView, weightsView } from "./explorers.js";

const answers = await (await fetch(new URL("answers.json", import.meta.url))).json();
const nearest = (values, wanted) => values.reduce((best, v) => (Math.abs(v - wanted) < Math.abs(best - wanted) ? v : best));

answerFrom(async (path) => {
  const { pathname, searchParams: q } = new URL(path, "http://docs");
  const kind = pathname.split("/").pop();
  if (kind === "gradients") return answers.gradients[[q.get("activation"), q.get("init"), q.get("norm"), q.get("residual"), nearest(answers.offered.gradients.depth, Number(q.get("depth")))].join("|")];
  if (kind === "units") return answers.units[[nearest(answers.offered.units.power, Math.log10(Number(q.get("lr")))), nearest(answers.offered.units.bias, Number(q.get("bias")))].join("|")];
  return answers[kind];
});
drawOnly();

const views = { gallery: galleryView, gradients: gradientsView, units: unitsView, weights: weightsView };
for (const place of document.querySelectorAll("[data-explorer]")) views[place.dataset.explorer](place, answers.offered[place.dataset.explorer]);
