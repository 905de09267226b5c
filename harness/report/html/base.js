// ---- the run's data, and small helpers; text only ever enters the page as text ----

const data = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of [].concat(children === undefined ? [] : children)) {
    node.append(child && child.nodeType ? child : document.createTextNode(child));
  }
  return node;
}
const el = (name, attributes, children) => fill(document.createElement(name), attributes, children);
const svg = (name, attributes, children) => fill(document.createElementNS(SVG, name), attributes, children);

const digitsFor = (size) => (size >= 99.95 || size === 0 ? 0 : size >= 9.995 ? 1 : 2);

function figure(value, digits) {
  if (value === null || value === undefined) return "\u2013";
  return value.toFixed(digits === undefined ? digitsFor(Math.abs(value)) : digits).replace("-", "\u2212");
}

const seconds = (ms) => (ms / 1000).toFixed(3) + " s";
const plural = (count, one) => count + " " + one + (count === 1 ? "" : "s");

const column = Object.fromEntries(data.measures.map((measure, index) => [measure.name, index]));
const instant = Object.fromEntries(data.instants.map((name, index) => [name, index]));
// A measure stands as a number, or as "k" = index of the reason why there is none.
const cell = (turn, name) => (name in column ? turn.m[column[name]] : null);
const number = (turn, name) => (typeof cell(turn, name) === "number" ? cell(turn, name) : null);
const reason = (turn, name) => (typeof cell(turn, name) === "string" ? data.reasons[Number(cell(turn, name))] : "");
const at = (turn, name) => turn.at[instant[name]];
const misfit = (turn) => (turn.class === "invalid" ? "invalid" : turn.class + ": " + turn.outcome);

// One of several buttons is pressed; `pressed` is told its element.
function choose(selector, pressed) {
  const buttons = document.querySelectorAll(selector);
  buttons.forEach((button) => button.addEventListener("click", () => {
    buttons.forEach((other) => other.setAttribute("aria-pressed", other === button));
    pressed(button);
  }));
}
