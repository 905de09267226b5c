// ---- one timeline: two lanes on a canvas, what happened in them as SVG over it ----

const LANE = 46;
const TOP = 30;
const MIDDLE = 40;
const FOOT = 22;
const AGENT_TOP = TOP + LANE + MIDDLE;
const BOTTOM = AGENT_TOP + LANE;
const HEIGHT = BOTTOM + FOOT;
const BAR_Y = TOP + LANE + 10;
const BAR = 8;
let scale = 0; // pixels per second; 0: as wide as the page

const STRETCHES = {
  pause: ["pause of the user", TOP, LANE],
  overlap: ["both at once", TOP, LANE + MIDDLE + LANE],
  underrun: ["underrun: nothing to play", AGENT_TOP, LANE],
  dropped: ["generated, never heard", AGENT_TOP + LANE / 2 - 3, 6],
};
const MARKS = {
  vad_started: ["server heard speech start", (x) => "M" + x + " " + (TOP - 3) + "v-7h5", "mark-vad"],
  vad_stopped: ["server heard speech stop", (x) => "M" + x + " " + (TOP - 3) + "v-7h-5", "mark-vad"],
  vad_committed: ["server took the turn", (x) => diamond(x), "mark-commit"],
  cancel: ["cancelled by us", (x) => cross(x, TOP + LANE + 4), "mark-cancel"],
  flush: ["the rest was dropped unheard", (x) => cross(x, AGENT_TOP + LANE / 2), "mark-flush"],
  gave_up: ["gave up waiting", (x) => cross(x, BOTTOM - 6), "mark-cancel"],
};
const diamond = (x) => "M" + x + " " + (TOP + LANE - 5) + "l4 5l-4 5l-4 -5Z";
const cross = (x, y) => "M" + (x - 4) + " " + (y - 4) + "l8 8m0 -8l-8 8";

const envelopes = new Map();

// Peaks of both lanes, one byte per bin; decoded when they are first drawn.
function envelopeOf(index) {
  if (!envelopes.has(index)) {
    const { peaks } = data.dialogues[index];
    const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    envelopes.set(index, peaks && { binMs: peaks.bin_ms, user: bytes(peaks.user), agent: bytes(peaks.agent) });
  }
  return envelopes.get(index);
}

// One column per pixel, mirrored at the lane's middle. fromMs: at the left edge.
function drawLane(context, peaks, binMs, middle, fromMs, msPerPixel, width) {
  for (let x = 0; x < width; x++) {
    const first = Math.max(0, Math.floor((fromMs + x * msPerPixel) / binMs));
    const end = Math.min(peaks.length, Math.max(first + 1, Math.ceil((fromMs + (x + 1) * msPerPixel) / binMs)));
    if (first >= peaks.length) break;
    let top = 0;
    for (let k = first; k < end; k++) top = Math.max(top, peaks[k]);
    const half = Math.max(0.5, (top / 255) * (LANE / 2));
    context.fillRect(x, middle - half, 1, 2 * half);
  }
}

// Only what is in view is drawn, so that no length and no scale is too much for a canvas.
function drawWaves(canvas, index, holder, msPerPixel) {
  const width = Math.ceil(holder.clientWidth);
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.round(HEIGHT * ratio);
  canvas.style.width = width + "px";
  canvas.style.height = HEIGHT + "px";
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  const colours = getComputedStyle(holder);
  const fromMs = holder.scrollLeft * msPerPixel;
  const envelope = envelopeOf(index);
  for (const [lane, middle] of [["user", TOP + LANE / 2], ["agent", AGENT_TOP + LANE / 2]]) {
    context.fillStyle = colours.getPropertyValue("--" + lane);
    if (envelope) drawLane(context, envelope[lane], envelope.binMs, middle, fromMs, msPerPixel, width);
    else context.fillRect(0, middle - 0.5, width, 1);
  }
}

function titled(node, text) {
  node.append(svg("title", {}, text));
  return node;
}

function stretchNodes(dialogue, x) {
  return dialogue.stretches.filter(([kind]) => kind in STRETCHES).map(([kind, from, to]) => {
    const [label, y, height] = STRETCHES[kind];
    const box = svg("rect", { class: "stretch " + kind, x: x(from), y, width: Math.max(x(to) - x(from), 1), height });
    return titled(box, label + ", " + figure(to - from) + " ms from " + seconds(from));
  });
}

// The parts of voice-to-voice stand in a bar between the lanes; they add up to it.
function latencyNodes(turn, x) {
  const [end, heard] = [at(turn, "speech_end"), at(turn, "first_audible")];
  if (end === null || heard === null || number(turn, "voice_to_voice_ms") === null) return [];
  const [left, right] = [Math.min(x(end), x(heard)), Math.max(x(end), x(heard))];
  const nodes = [
    svg("rect", { class: "span", x: left, width: Math.max(right - left, 1), y: TOP, height: BOTTOM - TOP }),
    svg("line", { class: "span-line", x1: left, x2: right, y1: BAR_Y + BAR / 2, y2: BAR_Y + BAR / 2 }),
  ];
  let from = end;
  for (const [name, ms] of turn.parts) {
    const bar = svg("rect", { class: "part " + name, x: x(from), y: BAR_Y, width: Math.max(x(from + ms) - x(from), 0), height: BAR });
    nodes.push(titled(bar, data.parts[name] + ": " + figure(ms) + " ms"));
    from += ms;
  }
  const label = figure(number(turn, "voice_to_voice_ms")) + " ms";
  nodes.push(svg("text", { class: "span-text", x: right + 5, y: BAR_Y + BAR }, label));
  return nodes;
}

// Every instant of a dialogue: [ms, what, turn or null, text], in order.
function eventsOf(dialogue) {
  const named = {
    speech_end: "speech end", turn_committed: "turn committed", first_packet: "first packet",
    first_audible: "first audible", reply_done: "reply done",
  };
  const rows = dialogue.marks.map(([kind, ms, turn, text]) => [ms, MARKS[kind][0], turn, text]);
  for (const turn of dialogue.turns) {
    for (const [name, label] of Object.entries(named)) {
      if (at(turn, name) !== null) rows.push([at(turn, name), label, turn.turn, ""]);
    }
  }
  return rows.sort((a, b) => a[0] - b[0]);
}

function turnNodes(turn, x) {
  const nodes = latencyNodes(turn, x);
  const upright = (css, name, y1, y2, title) => {
    const ms = at(turn, name);
    if (ms !== null) nodes.push(titled(svg("line", { class: css, x1: x(ms), x2: x(ms), y1, y2 }), title + ", " + seconds(ms)));
  };
  upright("mark-done", "reply_done", AGENT_TOP, BOTTOM, "reply done");
  upright("mark-end", "speech_end", TOP - 4, BAR_Y + BAR, "speech end");
  upright("mark-heard", "first_audible", BAR_Y, BOTTOM + 4, "first audible");
  const shape = (css, name, d, title) => {
    const ms = at(turn, name);
    if (ms !== null) nodes.push(titled(svg("path", { class: css, d: d(x(ms)) }), title + ", " + seconds(ms)));
  };
  shape("mark-commit", "turn_committed", diamond, "turn committed");
  shape("mark-packet", "first_packet", (px) => "M" + px + " " + (AGENT_TOP - 1) + "l-4 -7h8Z", "first packet");
  const end = at(turn, "speech_end");
  const words = [turn.kind === "speech" ? "" : turn.kind, turn.class === "completed" ? "" : misfit(turn)].filter(Boolean);
  if (words.length && end !== null) {
    const css = turn.class === "completed" ? "mark-kind" : "mark-fail " + turn.class;
    nodes.push(svg("text", { class: css, x: x(end) + 5, y: TOP + 10 }, words.join(", ")));
  }
  return nodes;
}

function markNodes(dialogue, x) {
  return dialogue.marks.map(([kind, ms, , text]) => {
    const [label, d, css] = MARKS[kind];
    return titled(svg("path", { class: css, d: d(x(ms)) }), label + (text ? " (" + text + ")" : "") + ", " + seconds(ms));
  });
}

function ticks(durationMs, x, width) {
  const wanted = durationMs / 1000 / (width / 90);
  const step = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600].find((s) => s >= wanted) || 1200;
  const nodes = [];
  for (let i = 0; i * step <= durationMs / 1000; i++) {
    const px = x(i * step * 1000);
    nodes.push(svg("line", { class: "grid", x1: px, x2: px, y1: TOP - 4, y2: BOTTOM + 4 }));
    const text = +(i * step).toFixed(1) + (i ? "" : " s");
    nodes.push(svg("text", { class: "tick", x: px, y: HEIGHT - 5, "text-anchor": i ? "middle" : "start" }, text));
  }
  return nodes;
}

// The slider's own keys; space plays and stops.
function keys(event, index, timeline) {
  const { duration_ms: length, turns } = data.dialogues[index];
  const ends = turns.map(listenFrom).sort((a, b) => a - b);
  const step = event.shiftKey ? 100 : 1000;
  const now = timeline.now();
  const targets = {
    ArrowLeft: now - step, ArrowRight: now + step, ArrowDown: now - step, ArrowUp: now + step, Home: 0, End: length,
    PageDown: ends.find((ms) => ms > now + 1), PageUp: ends.filter((ms) => ms < now - 1).pop() || 0,
  };
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === " ") {
    if (isPlaying(index)) stop(); else play(index, now, null);
  } else if (event.key in targets) {
    const ms = targets[event.key];
    if (ms !== undefined) timeline.seek(Math.min(Math.max(ms, 0), length));
  } else return;
  event.preventDefault();
}

// Draws into `holder` and registers in `timelines`; called again for another scale or width.
function timeline(index, holder) {
  const dialogue = data.dialogues[index];
  const width = Math.max(holder.clientWidth, (dialogue.duration_ms / 1000) * scale, 200);
  const msPerPixel = dialogue.duration_ms / width;
  const x = (ms) => +(ms / msPerPixel).toFixed(2);
  const head = svg("line", { class: "playhead", x1: 0, x2: 0, y1: TOP - 6, y2: BOTTOM + 6 });
  const drawing = svg("svg", { width, height: HEIGHT, "aria-hidden": "true" }, [
    ...ticks(dialogue.duration_ms, x, width),
    ...stretchNodes(dialogue, x),
    ...dialogue.turns.flatMap((turn) => turnNodes(turn, x)),
    ...markNodes(dialogue, x),
    svg("text", { class: "lane-name", x: 0, y: TOP - 16 }, "user (left)"),
    svg("text", { class: "lane-name", x: 0, y: AGENT_TOP - 4 }, "agent (right)"),
    head,
  ]);
  const canvas = el("canvas", { class: "waves" });
  const before = timelines.get(index);
  let nowMs = before ? before.now() : 0;
  const redraw = () => drawWaves(canvas, index, holder, msPerPixel);

  function move(ms) {
    nowMs = ms;
    const px = x(ms);
    head.setAttribute("transform", "translate(" + px + " 0)");
    holder.setAttribute("aria-valuenow", (ms / 1000).toFixed(2));
    holder.setAttribute("aria-valuetext", (ms / 1000).toFixed(1) + " s of " + (dialogue.duration_ms / 1000).toFixed(1) + " s");
    const seen = px - holder.scrollLeft;
    if (seen < 0 || seen > holder.clientWidth) holder.scrollLeft = px - holder.clientWidth / 4;
  }

  function seek(ms) {
    move(ms);
    if (loaded === index) goTo(ms);
  }

  holder.onscroll = redraw;
  holder.onclick = (event) => {
    const ms = Math.min(Math.max(0, (event.clientX - drawing.getBoundingClientRect().left) * msPerPixel), dialogue.duration_ms);
    move(ms);
    play(index, ms, null);
  };
  const sheet = el("div", { class: "sheet" }, [canvas, drawing]);
  sheet.style.width = width + "px";
  holder.replaceChildren(sheet);
  const made = { move, seek, redraw, now: () => nowMs };
  holder.onkeydown = (event) => keys(event, index, made);
  timelines.set(index, made);
  holder.scrollLeft = Math.max(0, x(nowMs) - holder.clientWidth / 2);
  move(nowMs);
  redraw();
}

function timelineHolder(index) {
  return el("div", {
    class: "lanes", tabindex: 0, role: "slider", "aria-label": "Timeline of dialogue " + (index + 1),
    "aria-valuemin": 0, "aria-valuemax": (data.dialogues[index].duration_ms / 1000).toFixed(2), "aria-valuenow": 0,
  });
}

// The waves are painted, not styled: other colours ask for them again.
for (const query of ["(prefers-color-scheme: dark)", "print"]) {
  window.matchMedia(query).addEventListener("change", () => timelines.forEach((one) => one.redraw()));
}
