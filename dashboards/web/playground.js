// The playground: submits a job, watches its events and shows its pictures.
const at = (id) => document.getElementById(id);
const finals = ["succeeded", "failed", "canceled", "dead"];
let models = [];
let current = null; // {id, width, stop}: the job on show, its pictures' width, and what ends its stream

function headers(more = {}) {
  const key = at("key").value.trim();
  return key ? { ...more, Authorization: `Bearer ${key}` } : more;
}

async function call(path, options = {}) {
  const response = await fetch(path, { ...options, headers: headers(options.headers) });
  if (response.ok) return response;
  if (response.status === 401) askForKey();
  const problem = await response.json().catch(() => ({ detail: response.statusText }));
  throw new Error(problem.field ? `${problem.field}: ${problem.detail}` : problem.detail);
}

function askForKey() {
  at("key-field").hidden = false;
  at("key-hint").textContent = at("key").value.trim() ? "this key is not valid: enter another" : "enter an API key here";
}

function complain(error) {
  at("problem").textContent = error ? error.message : "";
  at("problem").hidden = !error;
}

async function loadModels() {
  models = (await (await call("/v1/models")).json()).data;
  at("model").replaceChildren(...models.map((model) => new Option(model.id, model.id, model.default, model.default)));
  at("key-hint").textContent = "";
  showSizes();
}

function showSizes() {
  const model = models.find((known) => known.id === at("model").value);
  at("sizes").replaceChildren(...(model?.sizes ?? []).map((size) => new Option(size, size)));
  at("size").value = model?.default_size ?? "";
}

async function submit(event) {
  event.preventDefault();
  complain(null);
  at("submit").disabled = true;
  try {
    if (!models.length) await loadModels();
    const body = { prompt: at("prompt").value, n: Number(at("count").value), previews: true };
    for (const field of ["model", "size", "seed"]) if (at(field).value) body[field] = at(field).value;
    const options = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
    const job = await (await call("/v1/jobs", options)).json();
    current?.stop.abort();
    current = { id: job.id, width: Number(job.request.size.split("x")[0]), stop: new AbortController() };
    at("pictures").replaceChildren();
    show(job);
    if (!finals.includes(job.state)) watch(current);
  } catch (error) {
    complain(error);
  } finally {
    at("submit").disabled = false;
  }
}

function show(job) {
  at("job").hidden = false;
  at("link").href = `/v1/jobs/${job.id}`;
  at("link").textContent = `Job ${job.id}`;
  at("note").textContent = {
    hit: "found in the cache: nothing was rendered, nothing is charged",
    joined: "joined an identical request that is being rendered: nothing is charged",
    miss: `seed ${job.request.seed}, ${job.cost.charged} ${job.cost.currency} charged`,
  }[job.cache];
  at("warnings").replaceChildren(...job.warnings.map((warning) => {
    const item = document.createElement("li");
    item.textContent = warning;
    return item;
  }));
  showState(job.state);
  showProgress(job.progress);
  if (job.state === "queued") at("steps").textContent = standing(job.queue);
  if (job.error) complain(new Error(job.error.message));
  if (job.state === "succeeded") showPictures(job);
}

function standing({ position, eta_s: eta, paused }) {
  const place = position ? `${position} in line` : "waiting";
  if (paused) return `${place}, the lane is paused`;
  if (eta === null) return place;
  return `${place}, about ${eta < 60 ? `${Math.round(eta)} s` : `${Math.round(eta / 60)} min`}`;
}

function showState(state) {
  at("state").textContent = state;
  at("cancel").hidden = finals.includes(state);
  if (state === "running" && at("progress").value === 0) at("steps").textContent = "loading…";
}

function showProgress({ step, steps, fraction }) {
  at("progress").value = fraction;
  const loading = step === 0 && at("state").textContent === "running";
  at("steps").textContent = loading ? "loading…" : `step ${step} of ${steps}`;
}

// A small approximate picture in the place where the finished one will be.
function showPreview({ id, width }, { index, step, steps, image }) {
  if (current?.id !== id) return;
  let figure = document.getElementById(`preview-${index}`);
  if (!figure) {
    figure = document.createElement("figure");
    figure.id = `preview-${index}`;
    figure.append(document.createElement("img"), document.createElement("figcaption"));
    at("pictures").append(figure);
  }
  const [picture, caption] = figure.children;
  picture.src = image;
  picture.alt = `preview of picture ${index + 1}`;
  picture.width = width;
  caption.textContent = `preview, step ${step} of ${steps}`;
}

async function showPictures(job) {
  const figures = await Promise.all(job.images.map(async (image) => {
    const blob = await (await call(image.url)).blob(); // fetched, since an <img> can't send a key
    const picture = document.createElement("img");
    picture.src = URL.createObjectURL(blob);
    picture.alt = `${job.request.prompt} (seed ${image.seed})`;
    picture.width = image.width;
    const figure = document.createElement("figure");
    const caption = document.createElement("figcaption");
    caption.textContent = `seed ${image.seed}`;
    figure.append(picture, caption);
    return figure;
  }));
  if (current?.id === job.id) at("pictures").replaceChildren(...figures);
}

// EventSource can't send an Authorization header, so the stream is read by fetch, and resumed where it broke off.
async function watch(watched) {
  let last = null;
  while (!watched.stop.signal.aborted) {
    try {
      const more = last ? { "Last-Event-ID": last } : {};
      const response = await call(`/v1/jobs/${watched.id}/events`, { headers: more, signal: watched.stop.signal });
      for await (const event of events(response.body)) {
        if (event.id) last = event.id;
        if (event.name === "progress") showProgress(event.data);
        if (event.name === "preview") showPreview(watched, event.data);
        if (event.name === "state") showState(event.data.state);
        if (event.name === "done") return show(event.data);
      }
    } catch (error) {
      if (!watched.stop.signal.aborted) complain(error);
    }
    await new Promise((resume) => setTimeout(resume, 1000));
  }
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    const frames = text.split("\n\n");
    text = frames.pop();
    for (const frame of frames) {
      const fields = Object.fromEntries(frame.split("\n").map((line) => line.split(/: (.*)/s).slice(0, 2)));
      if (fields.event) yield { name: fields.event, id: fields.id, data: JSON.parse(fields.data) };
    }
  }
}

async function cancel() {
  try {
    const job = await (await call(`/v1/jobs/${current.id}/cancel`, { method: "POST" })).json();
    showState(job.state);
  } catch (error) {
    complain(error);
  }
}

at("form").addEventListener("submit", submit);
at("cancel").addEventListener("click", cancel);
at("model").addEventListener("change", showSizes);
at("key").addEventListener("input", () => { at("key-hint").textContent = ""; });
at("key").addEventListener("change", () => loadModels().then(() => complain(null), complain));
loadModels().catch(complain);
