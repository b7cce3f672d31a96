// The little helpers every view uses. Text from runs is only ever set as text.

export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value === true) node.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(key, String(value));
  }
  for (const child of children.flat()) if (child !== null && child !== undefined) node.append(child);
  return node;
}

async function fetched(path) {
  const answer = await fetch(path, { headers: { accept: "application/json" } });
  if (!answer.ok) throw new Error((await answer.text()) || answer.statusText);
  return answer.json();
}

let source = fetched;
export const get = (path) => source(path);
export function answerFrom(other) { source = other; } // pages without a server bring their answers along

export function number(value) {
  if (value === null || value === undefined || typeof value === "string") return String(value ?? "–");
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size >= 1e5 || size < 1e-3 ? value.toExponential(2) : String(Number(value.toPrecision(4)));
}

export const ICON = { critical: "✖", warning: "▲", info: "●" };
const SIGN = { healthy: "✔", wait: "✔", "stop-keep-best": "■", "fix-and-resume": "▲", "fix-evaluation": "▲", restart: "✖", "cannot-tell": "?" };

export function badge(verdict) {
  return el("span", { class: `badge ${verdict}` }, el("span", { "aria-hidden": "true" }, `${SIGN[verdict] ?? ""} `), verdict.replaceAll("-", " "));
}

export function copyable(text) {
  const button = el("button", { type: "button", class: "copies", onclick: async () => { await navigator.clipboard.writeText(text); button.textContent = "copied"; } }, "copy");
  return el("span", { class: "copy" }, text, " ", button);
}
