// Follows the unfinished jobs: one stream for up to 50 of them, and a slow round of questions for all.
//
// A browser opens six connections to a host over HTTP/1.1, for all its tabs together: so a tab holds one stream, and
// none while nobody looks at it. The round asks where jobs stand in line, which streams don't tell, and makes up for
// whatever a stream missed.
import { Problem, call, plainly, read } from "./api.js";
import { settled } from "./elements.js";
import { eventsOf } from "./events.js";

const MOST = 50;
const ROUND_MS = 2000;
const A_ROUND = 4;

export class Live {
  #jobs;
  #stop = null;
  #streamed = new Set();
  #turn = 0;
  #pause = 500;
  #look = settled(() => this.#open(), 80);

  constructor(jobs, { onreturn, ontrouble }) {
    this.#jobs = jobs;
    this.ontrouble = ontrouble;
    jobs.addEventListener("changed", ({ detail: job }) => {
      if (!this.#streamed.has(job.id) && this.#candidates().some(({ id }) => id === job.id)) this.#look();
    });
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) return this.close();
      onreturn();
      this.#look();
    });
    setInterval(() => this.#round(), ROUND_MS);
  }

  close() {
    this.#stop?.abort();
    this.#stop = null;
    this.#streamed = new Set();
  }

  // Those that were made first are next to change.
  #candidates() {
    return this.#jobs.active.sort((one, other) => one.created_at.localeCompare(other.created_at)).slice(0, MOST);
  }

  async #open() {
    const ids = this.#candidates().map((job) => job.id);
    if (document.hidden || !ids.length || ids.every((id) => this.#streamed.has(id))) return;
    this.close();
    const stop = (this.#stop = new AbortController());
    this.#streamed = new Set(ids);
    try {
      const response = await call(`/v1/jobs/events?ids=${ids.join(",")}`, { signal: stop.signal });
      this.ontrouble(null);
      this.#pause = 500;
      for await (const { name, data } of eventsOf(response.body)) this.#take(name, data);
    } catch (error) {
      if (stop.signal.aborted) return;
      if (error instanceof Problem && error.status === 401) return;
      this.ontrouble(plainly(error));
    }
    if (this.#stop !== stop) return;
    this.#streamed = new Set();
    this.#pause = Math.min(this.#pause * 2, 10_000);
    setTimeout(this.#look, this.#pause);
  }

  #take(name, { job_id: id, ...data }) {
    const job = this.#jobs.get(id);
    if (!job) return;
    if (name === "done") this.#jobs.put(data);
    if (name === "gone") this.#jobs.drop(id);
    if (name === "state") this.#enter(job, data);
    if (name === "progress") this.#step(job, data);
    if (name === "preview")
      this.#jobs.patch(id, { previews: { ...job.previews, [data.index]: data.image }, state: "running" });
  }

  // A stream begins with a job's first event: what is older than what is known is no news.
  #enter(job, { state, at }) {
    const known = job.at ?? job.finished_at ?? job.started_at ?? job.created_at;
    if (job.state === state || Date.parse(at) < Date.parse(known)) return;
    const anew = state === "running" ? {} : { previews: {} };
    this.#jobs.patch(job.id, { state, at, begun: undefined, left: 0, ...anew });
  }

  // How long the rest takes, by the steps that this page saw.
  #step(job, progress) {
    const now = performance.now();
    const begun = job.begun ?? { at: now, fraction: progress.fraction };
    const done = progress.fraction - begun.fraction;
    const left = done > 0 ? ((now - begun.at) / 1000 / done) * (1 - progress.fraction) : 0;
    this.#jobs.patch(job.id, { state: "running", progress, begun, left });
  }

  async #round() {
    if (document.hidden || this.asking) return;
    const open = this.#jobs.active.filter((job) => job.state !== "running" || !this.#streamed.has(job.id));
    if (!open.length) return;
    this.asking = true;
    try {
      for (let count = 0; count < Math.min(A_ROUND, open.length); count += 1) {
        const { id } = open[this.#turn++ % open.length];
        await this.#ask(id);
      }
    } finally {
      this.asking = false;
    }
  }

  async #ask(id) {
    try {
      this.#jobs.put(await read(`/v1/jobs/${id}`));
    } catch (error) {
      if (error instanceof Problem && error.status === 404) this.#jobs.drop(id);
    }
  }
}
