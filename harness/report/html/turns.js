// ---- one row per turn ----

const ROWS_AT_ONCE = 150;
const turns = [];
data.dialogues.forEach((dialogue, index) => dialogue.turns.forEach((turn) => turns.push({ dialogue, index, turn })));
const kindOf = (row) => (row.dialogue.warmup ? "warmup" : row.turn.class);
const columns = [
  { title: "Turn", key: (row) => row.index * 1e6 + row.turn.turn },
  { title: "Outcome", key: (row) => kindOf(row) + row.turn.outcome },
  { title: "User said", key: (row) => row.turn.said },
  { title: "Agent answered", key: (row) => row.turn.answered },
  ...data.shown.map((name) => ({
    title: data.measures[column[name]].label, name, numeric: true, key: (row) => number(row.turn, name),
  })),
  { title: "Remarks", key: (row) => row.turn.flags.join() },
];
// A column's figures share their decimals; counts have none.
const digits = Object.fromEntries(data.shown.map((name) => {
  const sizes = turns.map((row) => Math.abs(number(row.turn, name) || 0));
  return [name, data.measures[column[name]].unit === "count" ? 0 : digitsFor(Math.max(0, ...sizes))];
}));
const view = { sort: 0, down: false, kind: "all", limit: ROWS_AT_ONCE };

function words(text, title) {
  return el("td", { class: "words" }, el("div", { class: "clamp", dir: "auto", title: title || null }, text || "\u2013"));
}

function turnRow(row) {
  const { dialogue, index, turn } = row;
  const kind = kindOf(row);
  const outcome = el("span", { class: "badge " + kind, title: turn.detail || null }, turn.class === "invalid" ? "invalid" : turn.outcome);
  const heard = turn.understood && turn.understood !== turn.said ? "The server understood: " + turn.understood : "";
  return el("tr", {}, [
    el("td", {}, playButton(index, listenFrom(turn), "Play dialogue " + (index + 1) + ", turn " + (turn.turn + 1))),
    el("td", { class: "num" }, el("a", { href: "#d" + index }, index + 1 + "." + (turn.turn + 1))),
    el("td", {}, outcome),
    words(turn.said, heard),
    words(turn.answered, turn.answered),
    ...data.shown.map((name) => el("td", { class: "num", title: reason(turn, name) || null }, figure(number(turn, name), digits[name]))),
    el("td", { class: "flags" }, remarks(dialogue, turn)),
  ]);
}

function remarks(dialogue, turn) {
  const list = [...turn.flags];
  if (turn.class !== "completed" && turn.detail) list.unshift(turn.detail);
  if (turn.false_starts) list.push(turn.false_starts + " false start" + (turn.false_starts > 1 ? "s" : ""));
  if (dialogue.warmup) list.push("warm-up");
  return list.join("; ");
}

function compare(a, b) {
  const [x, y] = [columns[view.sort].key(a), columns[view.sort].key(b)];
  if (x === null || y === null) return (x === null) - (y === null); // what is unavailable stays last
  const order = x < y ? -1 : x > y ? 1 : 0;
  return view.down ? -order : order;
}

function drawTurns() {
  const rows = turns.filter((row) => (view.kind === "all" ? !row.dialogue.warmup : kindOf(row) === view.kind));
  rows.sort(compare);
  const body = document.querySelector("#turn-table tbody");
  body.replaceChildren(...rows.slice(0, view.limit).map(turnRow));
  const more = document.getElementById("more");
  more.hidden = rows.length <= view.limit;
  more.textContent = "Show all " + rows.length + " turns";
  document.querySelectorAll("#turn-table th[data-column]").forEach((head) => {
    const on = Number(head.dataset.column) === view.sort;
    if (on) head.setAttribute("aria-sort", view.down ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  });
}

function buildTurns() {
  const head = el("tr", {}, el("th", { "aria-label": "Play" }, ""));
  columns.forEach((column, index) => {
    const button = el("button", { type: "button" }, column.title);
    button.addEventListener("click", () => {
      view.down = view.sort === index ? !view.down : false;
      view.sort = index;
      drawTurns();
    });
    head.append(el("th", { "data-column": index, class: column.numeric ? "num" : null, scope: "col" }, button));
  });
  const table = el("table", { class: "turns", id: "turn-table" }, [el("thead", {}, head), el("tbody")]);
  document.getElementById("turn-list").replaceChildren(el("div", { class: "scroll" }, table));
  choose("[data-kind]", (button) => {
    view.kind = button.dataset.kind;
    drawTurns();
  });
  document.getElementById("more").addEventListener("click", () => {
    view.limit = Infinity;
    drawTurns();
  });
  drawTurns();
}

buildTurns();
