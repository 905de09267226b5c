// ---- dialogues: one fold each, filled when it is open and near the view ----

const OPEN_AT_FIRST = 12;
const PRINTED_AT_MOST = 40;

// What else can be told of a turn: its kind, what it has of turn-taking that is not nothing, remarks.
function besides(turn) {
  const taking = Object.entries(turn.t).filter(([name, value]) => typeof value === "number" && value && name !== "responded");
  const texts = taking.map(([name, value]) => {
    const { label, unit } = data.taking[name];
    return unit === "yes" ? label : label + " " + figure(value, unit === "ms" ? undefined : 0) + (unit === "ms" ? " ms" : "");
  });
  return [turn.kind === "speech" ? "" : turn.kind, ...texts, ...turn.flags].filter(Boolean).join(" \u00b7 ");
}

// The parts of voice-to-voice as one bar, on a scale that the turns of a dialogue share.
function waterfall(turn, longestMs) {
  let from = 0;
  const bars = turn.parts.map(([name, ms]) => {
    const [x, width] = [(100 * from) / longestMs, (100 * ms) / longestMs];
    from += ms;
    return svg("rect", { class: "part " + name, x: x + "%", width: width + "%", y: 0, height: 6 });
  });
  const told = turn.parts.filter(([, ms]) => ms > 0).map(([name, ms]) => data.parts[name] + " " + figure(ms));
  const text = told.join(" + ") + " = " + figure(from) + " ms";
  return el("div", { class: "waterfall" }, [svg("svg", { width: "100%", height: 6, "aria-hidden": "true" }, bars), el("span", { class: "soft" }, text)]);
}

function talk(dialogue, index) {
  const longestMs = Math.max(...dialogue.turns.map((turn) => number(turn, "voice_to_voice_ms") || 0), 1);
  return el("div", { class: "talk" }, dialogue.turns.flatMap((turn) => {
    const good = turn.class === "completed";
    const wait = number(turn, "voice_to_voice_ms");
    const verdict = good ? (wait === null ? turn.outcome : figure(wait) + " ms") : misfit(turn);
    const said = turn.said || (turn.kind === "speech" ? "\u2013" : turn.kind);
    const beside = [
      ...(turn.parts.length ? [waterfall(turn, longestMs)] : []),
      ...(besides(turn) ? [el("div", { class: "soft", dir: "auto" }, besides(turn))] : []),
    ];
    return [
      playButton(index, listenFrom(turn), "Play turn " + (turn.turn + 1)) || el("span"),
      el("div", { class: good ? "num" : "num " + turn.class }, verdict),
      el("div", { class: "words user", dir: "auto" }, said),
      el("div", { class: "words agent", dir: "auto" }, turn.answered || "\u2013"),
      ...(beside.length ? [el("div", { class: "beside" }, beside)] : []),
    ];
  }));
}

// The timeline for those who do not see it, and for those who want the figures.
function eventList(dialogue, index) {
  const box = el("details", { class: "events" }, el("summary", {}, "Every instant"));
  box.addEventListener("toggle", () => {
    if (!box.open || box.querySelector("table")) return;
    const rows = eventsOf(dialogue).map(([ms, what, turn, text]) => {
      const time = el("button", { type: "button", disabled: !hasSound(index) }, seconds(ms));
      time.addEventListener("click", () => play(index, ms, null));
      return el("tr", {}, [el("td", { class: "num" }, time), el("td", {}, turn === null ? "" : "turn " + (turn + 1)), el("td", {}, what), el("td", { class: "words" }, text)]);
    });
    box.append(el("div", { class: "scroll" }, el("table", { class: "figures" }, el("tbody", {}, rows))));
  });
  return box;
}

function fillDialogue(box) {
  if (box.dataset.done || !box.open) return;
  box.dataset.done = "1";
  const index = Number(box.dataset.index);
  const dialogue = data.dialogues[index];
  const lasted = dialogue.duration_ms > 0;
  const holder = timelineHolder(index);
  box.querySelector(".body").replaceChildren(
    lasted ? holder : el("div", { class: "empty" }, "No session came about: " + (dialogue.faults.join("; ") || "nothing to show")),
    talk(dialogue, index),
    ...(lasted ? [eventList(dialogue, index)] : []),
  );
  if (lasted) timeline(index, holder);
}

// What can be told of a dialogue while it is folded.
function heading(dialogue, index) {
  const waits = dialogue.turns.filter((turn) => turn.class === "completed").map((turn) => number(turn, "voice_to_voice_ms"));
  const known = waits.filter((ms) => ms !== null).sort((a, b) => a - b);
  const median = known.length ? (known[(known.length - 1) >> 1] + known[known.length >> 1]) / 2 : null;
  const bad = ["failed", "invalid"].map((kind) => [kind, dialogue.turns.filter((turn) => turn.class === kind).length]);
  return el("summary", { class: "top" }, [
    playButton(index, 0, "Play dialogue " + (index + 1)),
    el("b", {}, "Dialogue " + (index + 1)),
    el("span", {}, dialogue.script),
    el("span", { class: "quiet" }, [
      dialogue.id + ", " + plural(dialogue.turns.length, "turn"),
      dialogue.duration_ms ? ", " + (dialogue.duration_ms / 1000).toFixed(1) + " s" : "",
      dialogue.warmup ? ", warm-up: in no figure" : "",
      dialogue.complete ? "" : ", stopped by the user: in no figure",
    ]),
    ...(median === null ? [] : [el("span", { class: "median" }, "median " + figure(median) + " ms")]),
    ...bad.filter(([, count]) => count).map(([kind, count]) => el("span", { class: "badge " + kind }, count + " " + kind)),
    ...(hasSound(index) && !isCarried(index) ? [el("a", { class: "quiet", href: dialogue.recording }, "recording.flac")] : []),
  ]);
}

function buildDialogues() {
  const list = document.getElementById("dialogue-list");
  const isOpen = data.dialogues.length <= OPEN_AT_FIRST;
  const boxes = data.dialogues.map((dialogue, index) => el("details", { class: "dialogue", id: "d" + index, "data-index": index, open: isOpen }, [
    heading(dialogue, index),
    el("div", { class: "body" }, el("div", { class: "empty" }, "\u2026")),
  ]));
  list.replaceChildren(...boxes);
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) fillDialogue(entry.target);
  }, { rootMargin: "600px" });
  boxes.forEach((box) => {
    watcher.observe(box);
    box.addEventListener("toggle", () => {
      if (!box.open) return;
      watcher.unobserve(box); // looked at anew: opened while in view, it has not come into view
      watcher.observe(box);
    });
  });
  const redraw = () => boxes.filter((box) => box.dataset.done && box.open).forEach((box) => {
    const holder = box.querySelector(".lanes");
    if (holder) timeline(Number(box.dataset.index), holder);
  });
  choose("[data-scale]", (button) => {
    scale = Number(button.dataset.scale);
    redraw();
  });
  document.querySelectorAll("[data-fold]").forEach((button) => button.addEventListener("click", () => {
    boxes.forEach((box) => { box.open = Boolean(button.dataset.fold); });
  }));
  let waiting = 0;
  window.addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(redraw, 150); });
  window.addEventListener("beforeprint", () => boxes.slice(0, PRINTED_AT_MOST).filter((box) => box.open).forEach(fillDialogue));
  const unfold = () => {
    const box = boxes.find((one) => "#" + one.id === location.hash);
    if (box) box.open = true;
  };
  window.addEventListener("hashchange", unfold);
  unfold();
}

buildDialogues();

const copy = document.getElementById("copy");
if (copy) copy.addEventListener("click", () => {
  const text = document.getElementById("command").textContent;
  navigator.clipboard.writeText(text).then(() => { copy.textContent = "Copied"; }, () => { copy.textContent = "Select it by hand"; });
});
