// The playground: wires the form, the gallery and what keeps them up to date.
import { Account } from "./account.js";
import { Problem, key, plainly, read, submit, withTimes } from "./api.js";
import { acceptPictures } from "./drop.js";
import { at, say, settled, unsay } from "./elements.js";
import { Form } from "./form.js";
import { Gallery } from "./gallery.js";
import { Jobs } from "./jobs.js";
import { Lightbox } from "./lightbox.js";
import { Live } from "./live.js";
import { forgetPictures, save } from "./pictures.js";
import { again, ask, inWords } from "./prices.js";
import { asCurl, asPython } from "./snippets.js";
import { recall, remember } from "./stored.js";
import { active, fileName, settingsOf } from "./words.js";

const wanted = new URLSearchParams(location.search).get("job");
const ON_ITS_WAY = "On its way.";
let newest = null; // the job that was submitted last
const jobs = new Jobs();
const form = new Form({ onsubmit: order, onchange: settled(estimate, 300) });
const actions = { cancel, retry, reuse, vary, again, link, copy, download, missing, trouble, enlarge: (job, image) => lightbox.open(gallery.pictures, image) };
const gallery = new Gallery(jobs, actions);
gallery.first = wanted;
const lightbox = new Lightbox({ save: ({ job, image }) => save(image.url, fileName(job, image)).catch(trouble), reuse, missing });
new Live(jobs, { onreturn: () => gallery.refresh().catch(trouble), ontrouble: banner });
jobs.addEventListener("changed", ({ detail: job }) => {
  if (job.id === newest && !active(job)) unsay(ON_ITS_WAY);
});
const account = new Account({ onchange: begin });

function banner(text) {
  at("trouble").textContent = text ?? "";
  at("trouble").hidden = !text;
}

function trouble(error) {
  if (error instanceof Problem && error.status === 401) return;
  banner(plainly(error));
}

function missing(error) {
  return error instanceof Problem && error.code === "image_purged" ? "This picture was deleted by age" : plainly(error);
}

async function begin(me) {
  gallery.clear();
  forgetPictures();
  banner(null);
  if (!me) {
    form.withhold();
    return openShared();
  }
  gallery.owner = me.scopes.includes("admin") ? me.id : null;
  try {
    const models = read("/v1/models");
    await Promise.all([gallery.refresh(), openShared()]);
    form.offer((await models).data);
    await estimate();
  } catch (error) {
    trouble(error);
  }
}

// One order; the form is free for the next at once.
async function order(body, start) {
  try {
    const job = await submit(body, start);
    jobs.put(job);
    banner(null);
    newest = job.id;
    say(job.cache === "hit" ? "Found in the cache: nothing was rendered, nothing is charged." : job.cache === "joined" ? "The same is being rendered already: this joins it, at no charge." : ON_ITS_WAY);
    if (matchMedia("(max-width: 60rem)").matches) gallery.element(job.id)?.scrollIntoView({ block: "nearest" });
  } catch (error) {
    if (error instanceof Problem && error.status !== 401) form.complain(error);
    else form.complain({ message: plainly(error) });
  }
}

async function estimate() {
  at("price").textContent = "";
  if (!form.element.checkValidity()) return; // the submit will tell what is wrong
  const { previews, ...body } = form.body();
  try {
    const price = inWords(await ask(body));
    at("price").textContent = price.charAt(0).toUpperCase() + price.slice(1);
  } catch (error) {
    if (error instanceof Problem && error.field) at("price").textContent = `No price: ${withTimes(error.message)}`;
  }
}

async function act(job, verb) {
  try {
    jobs.put(await read(`/v1/jobs/${job.id}/${verb}`, { method: "POST" }), true);
  } catch (error) {
    trouble(error);
  }
}

function cancel(job) {
  return act(job, "cancel");
}

function retry(job) {
  return act(job, "retry");
}

function reuse(job, image) {
  const strange = form.load({ ...settingsOf(job.request), ...(image ? { seed: String(image.seed), n: 1 } : {}) });
  loaded("The settings are in the form", strange);
}

function loaded(what, strange) {
  say(strange.length ? `${what}, without ${strange.join(" and ")}: this server has none of it.` : `${what}.`);
  estimate();
  at("prompt").scrollIntoView({ block: "center" });
  at("prompt").focus({ preventScroll: true });
}

// The same with other seeds, one job each: each can be canceled, and all step together.
async function vary(job, count) {
  const { seed, ...body } = { ...settingsOf(job.request), previews: true };
  if (count > 1) body.n = 1;
  await Promise.all(Array.from({ length: count }, () => order(body)));
}

async function download(job) {
  try {
    for (const image of job.images) await save(image.url, fileName(job, image));
  } catch (error) {
    banner(missing(error));
  }
}

function link(job) {
  return toClipboard(`${location.origin}/?job=${job.id}`, "The link is copied. It opens for this key, and for admins.");
}

function copy(job, kind) {
  const body = settingsOf(job.request);
  return toClipboard(kind === "curl" ? asCurl(body, Boolean(key.secret)) : asPython(body, Boolean(key.secret)), "Copied.");
}

async function toClipboard(text, done) {
  try {
    await navigator.clipboard.writeText(text);
    say(done);
  } catch {
    at("copy-text").value = text; // a page over plain HTTP has no clipboard: show it, to be copied by hand
    at("copy").showModal();
    at("copy-text").select();
  }
}

// The job of a link that somebody sent.
async function openShared() {
  if (!wanted) return;
  try {
    const job = await read(`/v1/jobs/${encodeURIComponent(wanted)}`);
    jobs.put(job, true);
    shared("");
    const card = gallery.element(job.id);
    card.classList.add("shared");
    card.scrollIntoView({ block: "center" });
    card.focus({ preventScroll: true });
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if (error.status === 401) shared("This link leads to a job. Enter the key that made it, or an admin's, to see it.");
    else if (error.status === 404) shared("This link leads to a job that isn't there for you: another key made it, or it was deleted by age. Enter the key that made it, or an admin's.");
    else shared(plainly(error));
  }
}

function shared(text) {
  at("shared").textContent = text;
  at("shared").hidden = !text;
}

function theme(choice) {
  if (choice) document.documentElement.dataset.theme = choice;
  const dark = choice ? choice === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  at("theme").setAttribute("aria-pressed", String(dark));
  return dark;
}

at("theme").addEventListener("click", () => {
  const next = theme(recall("theme")) ? "light" : "dark";
  remember("theme", next);
  theme(next);
});
at("copy-close").addEventListener("click", () => at("copy").close());
for (const idea of document.querySelectorAll("[data-idea]")) idea.addEventListener("click", () => {
  form.set("prompt", idea.textContent);
  at("prompt").focus();
});
acceptPictures({
  onsettings: (settings, name) => loaded(`The settings of ${name} are in the form`, form.load(settings)),
  onforeign: (text) => { banner(text); },
  onstart: (file) => form.start.take(file),
});
theme(recall("theme"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => theme(recall("theme")));
account.enter().catch(trouble);
