"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const SVG = "http://www.w3.org/2000/svg";
  const ROWS_AT_ONCE = 150;

  // ---- small helpers; text only ever enters the page as text ----

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

  const column = Object.fromEntries(data.measures.map((measure, index) => [measure.name, index]));
  const instant = Object.fromEntries(data.instants.map((name, index) => [name, index]));
  // A measure stands as a number, or as "k" = index of the reason why there is none.
  const cell = (turn, name) => (name in column ? turn.m[column[name]] : null);
  const number = (turn, name) => (typeof cell(turn, name) === "number" ? cell(turn, name) : null);
  const reason = (turn, name) => (typeof cell(turn, name) === "string" ? data.reasons[Number(cell(turn, name))] : "");
  const at = (turn, name) => turn.at[instant[name]];

  // ---- playing: one audio element, one recording at a time ----

  const player = new Audio();
  player.preload = "auto";
  let loaded = null;
  let pressed = null;
  const heads = new Map();

  function load(index) {
    if (loaded === index) return;
    const holder = document.getElementById("audio-" + index);
    if (holder) {
      const raw = atob(holder.textContent.trim());
      const bytes = Uint8Array.from(raw, (c) => c.charCodeAt(0));
      player.src = URL.createObjectURL(new Blob([bytes], { type: holder.dataset.type }));
    } else {
      player.src = data.dialogues[index].recording;
    }
    loaded = index;
  }

  function release() {
    if (pressed) {
      pressed.classList.remove("on");
      pressed.replaceChildren(icon("play"));
    }
    pressed = null;
  }

  function play(index, fromMs, button) {
    const again = pressed === button && !player.paused;
    player.pause();
    release();
    if (again) return;
    load(index);
    const begin = () => { player.currentTime = Math.max(0, fromMs / 1000); };
    if (player.readyState >= 1) begin(); else player.addEventListener("loadedmetadata", begin, { once: true });
    pressed = button;
    if (button) {
      button.classList.add("on");
      button.replaceChildren(icon("stop"));
    }
    player.play().catch(() => {
      release();
      if (button) button.title = "This recording cannot be played here";
    });
    requestAnimationFrame(follow);
  }

  function follow() {
    for (const [index, head] of heads) {
      const shown = index === loaded && !player.paused;
      head.line.style.display = shown ? "" : "none";
      if (shown) head.line.setAttribute("transform", "translate(" + head.x(player.currentTime * 1000) + " 0)");
    }
    if (!player.paused) requestAnimationFrame(follow);
  }
  player.addEventListener("ended", () => { release(); follow(); });
  player.addEventListener("pause", follow);

  function icon(kind) {
    const path = kind === "play" ? "M1.5 0.5 L9.5 5 L1.5 9.5 Z" : "M1 1 H9 V9 H1 Z";
    return svg("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" }, svg("path", { d: path }));
  }

  function playButton(index, fromMs, label) {
    if (!data.dialogues[index].recording) return "";
    const button = el("button", { class: "play", type: "button", "aria-label": label, title: label }, icon("play"));
    button.addEventListener("click", () => play(index, fromMs, button));
    return button;
  }

  // A second of the user's last words makes the wait that follows audible as a wait.
  const listenFrom = (turn) => (at(turn, "speech_end") === null ? 0 : at(turn, "speech_end") - 1000);

  // ---- one row per turn ----

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
    document.querySelectorAll("[data-kind]").forEach((button) => {
      button.addEventListener("click", () => {
        view.kind = button.dataset.kind;
        document.querySelectorAll("[data-kind]").forEach((other) => other.setAttribute("aria-pressed", other === button));
        drawTurns();
      });
    });
    document.getElementById("more").addEventListener("click", () => {
      view.limit = Infinity;
      drawTurns();
    });
    drawTurns();
  }

  // ---- timelines, drawn when they come into view ----

  const LANE = 46;
  const TOP = 22;
  const MIDDLE = 26;
  const HEIGHT = TOP + LANE + MIDDLE + LANE + 22;
  const USER_Y = TOP + LANE / 2;
  const AGENT_Y = TOP + LANE + MIDDLE + LANE / 2;
  let scale = 0;

  function wave(peaks, binMs, x, y, name) {
    const bytes = atob(peaks);
    const step = Math.max(1, Math.floor(1 / (x(binMs) - x(0)))); // no finer than a pixel
    let upper = "";
    let lower = "";
    for (let i = 0; i < bytes.length; i += step) {
      let top = 0;
      for (let k = i; k < Math.min(i + step, bytes.length); k++) top = Math.max(top, bytes.charCodeAt(k));
      const half = Math.max(0.4, (top / 255) * (LANE / 2));
      const px = x(i * binMs).toFixed(1);
      upper += (i ? "L" : "M") + px + " " + (y - half).toFixed(1);
      lower = "L" + px + " " + (y + half).toFixed(1) + lower;
    }
    return svg("path", { class: name, d: upper + lower + "Z" });
  }

  const misfit = (turn) => (turn.class === "invalid" ? "invalid" : turn.class + ": " + turn.outcome);

  function marks(turn, x) {
    const [end, packet, heard, done] = ["speech_end", "first_packet", "first_audible", "reply_done"].map((n) => at(turn, n));
    const nodes = [];
    const line = (name, ms, y1, y2, title) =>
      ms !== null && nodes.push(svg("line", { class: name, x1: x(ms), x2: x(ms), y1, y2 }, svg("title", {}, title + ", " + (ms / 1000).toFixed(3) + " s")));
    const gap = TOP + LANE + MIDDLE / 2;
    if (end !== null && heard !== null) {
      const [left, right] = [Math.min(x(end), x(heard)), Math.max(x(end), x(heard))];
      nodes.push(svg("rect", { class: "span", x: left, width: Math.max(right - left, 1), y: TOP, height: LANE * 2 + MIDDLE }));
      nodes.push(svg("line", { class: "span-line", x1: left, x2: right, y1: gap, y2: gap }));
      const label = figure(number(turn, "voice_to_voice_ms")) + " ms";
      nodes.push(svg("text", { class: "span-text", x: right + 5, y: gap + 4 }, label));
    }
    line("mark-done", done, TOP + LANE + MIDDLE, HEIGHT - 22, "reply done");
    line("mark-end", end, TOP - 4, gap, "speech end");
    line("mark-heard", heard, gap, HEIGHT - 18, "first audible");
    if (packet !== null) {
      const [px, y] = [x(packet), TOP + LANE + MIDDLE - 1];
      const shape = "M" + px + " " + y + "l-4 -7h8Z";
      nodes.push(svg("path", { class: "mark-packet", d: shape }, svg("title", {}, "first packet, " + (packet / 1000).toFixed(3) + " s")));
    }
    if (turn.class !== "completed" && end !== null) {
      nodes.push(svg("text", { class: "mark-fail " + turn.class, x: x(end) + 5, y: TOP + 10 }, misfit(turn)));
    }
    return nodes;
  }

  function ticks(durationMs, x, width) {
    const wanted = durationMs / 1000 / (width / 90);
    const step = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600].find((s) => s >= wanted) || 1200;
    const nodes = [];
    for (let i = 0; i * step <= durationMs / 1000; i++) {
      const px = x(i * step * 1000);
      nodes.push(svg("line", { class: "grid", x1: px, x2: px, y1: TOP - 4, y2: HEIGHT - 18 }));
      const text = +(i * step).toFixed(1) + (i ? "" : " s");
      nodes.push(svg("text", { class: "tick", x: px, y: HEIGHT - 5, "text-anchor": i ? "middle" : "start" }, text));
    }
    return nodes;
  }

  function timeline(dialogue, index, holder) {
    const width = Math.max(holder.clientWidth - 32, (dialogue.duration_ms / 1000) * scale, 200);
    const x = (ms) => (ms / dialogue.duration_ms) * width;
    const line = svg("line", { class: "playhead", x1: 0, x2: 0, y1: TOP - 6, y2: HEIGHT - 16 });
    line.style.display = "none";
    const drawing = svg("svg", { width, height: HEIGHT, role: "img", "aria-label": "Timeline of dialogue " + (index + 1) }, [
      ...ticks(dialogue.duration_ms, x, width),
      ...(dialogue.peaks
        ? [wave(dialogue.peaks.user, dialogue.peaks.bin_ms, x, USER_Y, "wave"),
          wave(dialogue.peaks.agent, dialogue.peaks.bin_ms, x, AGENT_Y, "wave of-agent")]
        : [svg("line", { class: "base", x1: 0, x2: width, y1: USER_Y, y2: USER_Y }),
          svg("line", { class: "base", x1: 0, x2: width, y1: AGENT_Y, y2: AGENT_Y })]),
      ...dialogue.turns.flatMap((turn) => marks(turn, x)),
      svg("text", { class: "lane-name", x: 0, y: TOP - 8 }, "user (left)"),
      svg("text", { class: "lane-name", x: 0, y: TOP + LANE + MIDDLE - 4 }, "agent (right)"),
      line,
    ]);
    if (dialogue.recording) {
      drawing.addEventListener("click", (event) => {
        const box = drawing.getBoundingClientRect();
        play(index, ((event.clientX - box.left) / box.width) * dialogue.duration_ms, null);
      });
    }
    heads.set(index, { line, x });
    holder.replaceChildren(drawing);
  }

  function talk(dialogue, index) {
    return el("div", { class: "talk" }, dialogue.turns.flatMap((turn) => {
      const good = turn.class === "completed";
      const wait = number(turn, "voice_to_voice_ms");
      const verdict = good ? (wait === null ? turn.outcome : figure(wait) + " ms") : misfit(turn);
      return [
        playButton(index, listenFrom(turn), "Play turn " + (turn.turn + 1)) || el("span"),
        el("div", { class: good ? "num" : "num " + turn.class }, verdict),
        el("div", { class: "words user", dir: "auto" }, turn.said || "\u2013"),
        el("div", { class: "words agent", dir: "auto" }, turn.answered || "\u2013"),
      ];
    }));
  }

  function fillDialogue(box) {
    if (box.dataset.done) return;
    box.dataset.done = "1";
    const index = Number(box.dataset.index);
    const dialogue = data.dialogues[index];
    const holder = el("div", { class: "lanes" });
    box.querySelector(".body").replaceChildren(
      dialogue.duration_ms ? holder : el("div", { class: "empty" }, "No session came about: " + (dialogue.faults.join("; ") || "nothing to show")),
      talk(dialogue, index),
    );
    if (dialogue.duration_ms) timeline(dialogue, index, holder);
  }

  function buildDialogues() {
    const list = document.getElementById("dialogue-list");
    const boxes = data.dialogues.map((dialogue, index) => {
      const top = el("div", { class: "top" }, [
        playButton(index, 0, "Play dialogue " + (index + 1)),
        el("b", {}, "Dialogue " + (index + 1)),
        el("span", {}, dialogue.script),
        el("span", { class: "quiet" }, [
          dialogue.turns.length + (dialogue.turns.length === 1 ? " turn" : " turns"),
          dialogue.duration_ms ? ", " + (dialogue.duration_ms / 1000).toFixed(1) + " s" : "",
          dialogue.warmup ? ", warm-up: in no figure" : "",
          dialogue.complete ? "" : ", stopped by the user: in no figure",
        ]),
      ]);
      return el("div", { class: "dialogue", id: "d" + index, "data-index": index }, [top, el("div", { class: "body" }, el("div", { class: "empty" }, "\u2026"))]);
    });
    list.replaceChildren(...boxes);
    const watcher = new IntersectionObserver((entries) => {
      for (const entry of entries) if (entry.isIntersecting) { fillDialogue(entry.target); watcher.unobserve(entry.target); }
    }, { rootMargin: "600px" });
    boxes.forEach((box) => watcher.observe(box));
    const redraw = () => boxes.filter((box) => box.dataset.done).forEach((box) => {
      const index = Number(box.dataset.index);
      const holder = box.querySelector(".lanes");
      if (holder) timeline(data.dialogues[index], index, holder);
    });
    document.querySelectorAll("[data-scale]").forEach((button) => button.addEventListener("click", () => {
      scale = Number(button.dataset.scale);
      document.querySelectorAll("[data-scale]").forEach((other) => other.setAttribute("aria-pressed", other === button));
      redraw();
    }));
    let waiting = 0;
    window.addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(redraw, 150); });
    window.addEventListener("beforeprint", () => boxes.slice(0, 40).forEach(fillDialogue));
  }

  buildTurns();
  buildDialogues();

  const copy = document.getElementById("copy");
  if (copy) copy.addEventListener("click", () => {
    const text = document.getElementById("command").textContent;
    navigator.clipboard.writeText(text).then(() => { copy.textContent = "Copied"; }, () => { copy.textContent = "Select it by hand"; });
  });
})();
