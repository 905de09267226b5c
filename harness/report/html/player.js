// ---- playing: one audio element, one recording at a time ----

const player = new Audio();
player.preload = "auto";
let loaded = null;
let pressed = null;
let address = "";
// By dialogue, the timeline that shows where its recording stands: `move(ms)`.
const timelines = new Map();

const hasSound = (index) => Boolean(data.dialogues[index].recording);
const isCarried = (index) => document.getElementById("audio-" + index) !== null;
const isPlaying = (index) => loaded === index && !player.paused;

function load(index) {
  if (loaded === index) return;
  URL.revokeObjectURL(address);
  const holder = document.getElementById("audio-" + index);
  if (holder) {
    const bytes = Uint8Array.from(atob(holder.textContent.trim()), (c) => c.charCodeAt(0));
    address = URL.createObjectURL(new Blob([bytes], { type: holder.dataset.type }));
    player.src = address;
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

function stop() {
  player.pause();
  release();
}

function goTo(fromMs) {
  const begin = () => { player.currentTime = Math.max(0, fromMs / 1000); };
  if (player.readyState >= 1) begin(); else player.addEventListener("loadedmetadata", begin, { once: true });
}

// button: the one that shows that it plays, if any. A second press on it stops.
function play(index, fromMs, button) {
  if (!hasSound(index)) return;
  const again = button && pressed === button && !player.paused;
  stop();
  if (again) return;
  load(index);
  goTo(fromMs);
  pressed = button;
  if (button) {
    button.classList.add("on");
    button.replaceChildren(icon("stop"));
  }
  player.play().then(() => requestAnimationFrame(follow), (error) => {
    if (error.name === "AbortError") return; // another play came in between
    release();
    if (button) button.title = "This recording cannot be played here";
  });
}

function follow() {
  const timeline = timelines.get(loaded);
  if (timeline && player.readyState >= 1 && !player.seeking) timeline.move(player.currentTime * 1000);
  if (!player.paused) requestAnimationFrame(follow);
}
player.addEventListener("ended", () => { release(); follow(); });
player.addEventListener("pause", follow);

function icon(kind) {
  const path = kind === "play" ? "M1.5 0.5 L9.5 5 L1.5 9.5 Z" : "M1 1 H9 V9 H1 Z";
  return svg("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" }, svg("path", { d: path }));
}

function playButton(index, fromMs, label) {
  if (!hasSound(index)) return "";
  const button = el("button", { class: "play", type: "button", "aria-label": label, title: label }, icon("play"));
  button.addEventListener("click", () => play(index, fromMs, button));
  return button;
}

// A second of the user's last words makes the wait that follows audible as a wait.
const listenFrom = (turn) => (at(turn, "speech_end") === null ? 0 : at(turn, "speech_end") - 1000);
