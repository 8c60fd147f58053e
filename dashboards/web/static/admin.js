// The admin pages' own script: colours, the live stream, dialogs and charts. All else is htmx.
"use strict";

// Colours: as the system has them, light, or dark. At once, before anything is drawn.
const THEMES = ["", "light", "dark"];
const NAMES = { "": "as the system has them", light: "light", dark: "dark" };
const stored = (name) => { try { return localStorage.getItem(name) ?? ""; } catch { return ""; } };
const store = (name, value) => { try { localStorage.setItem(name, value); } catch { /* private windows may forbid it */ } };

function paint() {
  const theme = stored("safelight-theme");
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  document.querySelector("[data-theme-toggle]")?.setAttribute("aria-label", `Colours: ${NAMES[theme] ?? NAMES[""]}`);
}
paint();

function nextTheme() {
  store("safelight-theme", THEMES[(THEMES.indexOf(stored("safelight-theme")) + 1) % THEMES.length]);
  paint();
  redraw();
}

// The browser's time zone, for days as whoever looks counts them. A page that would have wanted it asks anew, once.
function tellZone() {
  const cookie = `safelight_zone=${encodeURIComponent(Intl.DateTimeFormat().resolvedOptions().timeZone)}`;
  const told = () => document.cookie.split("; ").includes(cookie);
  if (told()) return;
  document.cookie = `${cookie}; path=/admin; max-age=31536000; samesite=strict`;
  if (told() && document.querySelector("[data-wants-zone]")) location.reload();
}

// The live stream: events become `live:NAME` on the body, which parts of pages have as their trigger.
let stream = null;
let ended = false; // the session, while a secret is on show
const paused = () => stored("safelight-paused") === "yes";

function connect() {
  stream?.close();
  stream = null;
  const address = document.body.dataset.live;
  if (!address || ended || paused() || document.hidden) return;
  stream = new EventSource(address);
  for (const name of ["jobs", "beat"])
    stream.addEventListener(name, () => document.body.dispatchEvent(new CustomEvent(`live:${name}`)));
  stream.addEventListener("over", () => {
    stream.close();
    if (document.getElementById("secret")) endSession(); // what is shown once must not go before it was copied
    else location.reload();
  });
  stream.addEventListener("open", () => lost(false));
  stream.addEventListener("error", () => lost(true));
}

function lost(yes) {
  const button = document.querySelector("[data-pause]");
  button.toggleAttribute("data-lost", yes);
  button.querySelector("[data-pause-text]").textContent = paused() ? "Paused" : yes ? "Offline" : "Live";
}

function endSession() {
  ended = true;
  const button = document.querySelector("[data-pause]");
  button.disabled = true;
  button.querySelector(".dot").hidden = true;
  button.querySelector("[data-pause-text]").textContent = "Sign in again";
}

function showPause() {
  const button = document.querySelector("[data-pause]");
  if (!button) return;
  button.setAttribute("aria-pressed", String(paused()));
  lost(false);
}

function togglePause() {
  store("safelight-paused", paused() ? "" : "yes");
  showPause();
  connect();
  if (!paused()) document.body.dispatchEvent(new CustomEvent("live:beat"));
}

// Whoever types, or has a dialog open, is not disturbed by a refresh.
function busy(region) {
  return region.querySelector("dialog[open], :active") || (region.contains(document.activeElement)
    && document.activeElement.matches("input, select, textarea"));
}

// On a phone, the section that is open is brought into sight, and filters are folded: what they find comes first.
function fitPhone() {
  const here = document.querySelector(".sections [aria-current]");
  const list = here?.closest("ul");
  if (list) {
    const [item, box] = [here.getBoundingClientRect(), list.getBoundingClientRect()];
    list.scrollLeft += item.left - box.left - (box.width - item.width) / 2;
  }
  const wide = matchMedia("(min-width: 40rem)");
  const fold = () => { for (const filter of document.querySelectorAll("[data-fold]")) filter.open = wide.matches; };
  fold();
  wide.addEventListener("change", fold);
}

// Charts: what they show stands in the attribute, their colours come from the style sheet.
const COLOURS = ["--info", "--accent", "--good", "--warn", "--strong-line", "--bad"];

function draw(canvas) {
  const asked = JSON.parse(canvas.dataset.chart);
  // A custom property holds light-dark() as it is written: the colour is read off where it is used.
  const probe = canvas.parentElement;
  const colour = (name) => { probe.style.setProperty("color", `var(${name})`); return getComputedStyle(probe).color; };
  const [text, line] = [colour("--muted"), colour("--line")];
  const datasets = asked.series.map((one, index) => {
    const own = colour(one.colour ? `--${one.colour}` : COLOURS[index % COLOURS.length]);
    return { label: one.label, data: one.data, backgroundColor: own, borderColor: own, borderWidth: asked.kind === "line" ? 2 : 0,
      pointRadius: 0, pointHitRadius: 8, tension: .25 };
  });
  probe.style.removeProperty("color");
  const whole = asked.series.every((one) => one.data.every(Number.isInteger));
  const axis = (more) => ({ ticks: { color: text, precision: whole ? 0 : undefined, maxRotation: 0, autoSkipPadding: 16 }, grid: { color: line }, stacked: asked.stacked, ...more });
  Chart.getChart(canvas)?.destroy();
  new Chart(canvas, {
    type: asked.kind,
    data: { labels: asked.labels, datasets },
    options: {
      animation: false, maintainAspectRatio: false, interaction: { mode: "index", intersect: false },
      plugins: {
        legend: { display: datasets.length > 1, labels: { color: text, boxWidth: 12 } },
        tooltip: { callbacks: { label: (item) => ` ${item.dataset.label}: ${item.formattedValue}${asked.unit ? ` ${asked.unit}` : ""}` } },
      },
      scales: { x: axis({ grid: { display: false } }), y: axis({ beginAtZero: true }) },
    },
  });
}

function redraw(within = document) {
  if (typeof Chart !== "undefined") for (const canvas of within.querySelectorAll("canvas[data-chart]")) draw(canvas);
}

// A problem that names a field of the form is said beside it, too, and the form's dialog stays open.
function unblame(form) {
  for (const note of form.querySelectorAll(".wrong")) note.remove();
  for (const field of form.querySelectorAll("[aria-invalid]")) {
    field.removeAttribute("aria-invalid");
    field.removeAttribute("aria-describedby");
  }
}

function blame(form, answer) {
  const told = new DOMParser().parseFromString(answer, "text/html").querySelector("[data-field]");
  const field = told && form.querySelector(`[name="${CSS.escape(told.dataset.field)}"]:not([type="hidden"])`);
  if (!field) return false;
  const note = Object.assign(document.createElement("small"), { className: "wrong", id: "wrong", textContent: told.dataset.detail });
  (field.closest("fieldset") ?? field.closest("label")).append(note);
  field.setAttribute("aria-invalid", "true");
  field.setAttribute("aria-describedby", "wrong");
  field.focus();
  return true;
}

// Secrets are copied by a button; where the browser forbids that, the text is marked for whoever copies by hand.
async function copy(button) {
  const text = document.getElementById(button.dataset.copy);
  getSelection().selectAllChildren(text);
  try {
    await navigator.clipboard.writeText(text.textContent);
    button.textContent = "Copied";
  } catch { button.textContent = "Marked: copy it"; }
}

function click(event) {
  const found = (selector) => event.target.closest?.(selector);
  if (found("[data-theme-toggle]")) nextTheme();
  else if (found("[data-pause]")) togglePause();
  else if (found("[data-copy]")) copy(found("[data-copy]"));
  else if (found("[data-dialog]")) document.getElementById(found("[data-dialog]").dataset.dialog)?.showModal();
  else if (found("[data-close]")) { // a link on a page of its own leads back
    const dialog = found("dialog");
    if (dialog) event.preventDefault();
    dialog?.close();
  }
  else if (event.target.matches?.("dialog")) event.target.close(); // beside it
}

document.addEventListener("DOMContentLoaded", () => {
  paint();
  tellZone();
  showPause();
  fitPhone();
  connect();
  redraw();
  document.addEventListener("click", click);
  document.addEventListener("visibilitychange", () => {
    connect();
    if (!document.hidden && !paused()) document.body.dispatchEvent(new CustomEvent("live:beat"));
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraw());
  document.addEventListener("htmx:beforeRequest", (event) => {
    const trigger = event.detail.requestConfig.triggeringEvent?.type ?? "";
    if (trigger.startsWith("live:") && busy(event.detail.elt)) event.preventDefault();
  });
  document.addEventListener("htmx:beforeSwap", (event) => { // nor whoever began to while the answer was under way
    const trigger = event.detail.requestConfig.triggeringEvent?.type ?? "";
    if (trigger.startsWith("live:") && busy(event.detail.elt)) event.detail.shouldSwap = false;
  });
  document.addEventListener("htmx:beforeOnLoad", (event) => {
    const { elt, target } = event.detail;
    // A refresh may have put another in its place while the answer was under way: a filter's would be lost.
    if (elt !== target && target.id && !target.isConnected) {
      event.detail.target = document.getElementById(target.id) ?? target;
    }
  });
  document.addEventListener("htmx:afterRequest", (event) => { // what went wrong is said behind the dialog
    const form = event.detail.elt.closest("form[method='post']");
    if (form) unblame(form);
    if (!event.detail.failed) return;
    if (form && blame(form, event.detail.xhr.responseText)) return;
    event.detail.elt.closest("dialog")?.close();
    document.getElementById("said").scrollIntoView({ block: "nearest" });
  });
  document.addEventListener("htmx:beforeCleanupElement", (event) => {
    if (event.target.matches?.("canvas[data-chart]")) Chart.getChart(event.target)?.destroy();
  });
  // At once: by the time that all has settled, the empty canvas would have been on show.
  document.addEventListener("htmx:afterSwap", (event) => redraw(event.target));
  document.addEventListener("htmx:afterSettle", (event) => {
    const dialog = event.target.closest?.("dialog[data-asked]"); // opens once what it asks is there
    if (dialog && !dialog.open) dialog.showModal();
  });
  addEventListener("pagehide", () => stream?.close());
});
