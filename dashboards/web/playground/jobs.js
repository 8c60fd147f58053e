// The jobs that this page knows of. Tells of each that changed, and when the set of unfinished ones did.
import { active } from "./words.js";

export class Jobs extends EventTarget {
  #known = new Map();

  get(id) {
    return this.#known.get(id);
  }

  get all() {
    return [...this.#known.values()];
  }

  get active() {
    return this.all.filter(active);
  }

  // `anew` says that a job which had ended may go on again. Else an answer that was under way meanwhile tells less than
  // is known.
  put(job, anew = false) {
    const before = this.#known.get(job.id);
    if (before && !active(before) && active(job) && !anew) return;
    const kept = before?.queue?.position && job.state === "queued" && job.queue.position === null ? { queue: before.queue } : {};
    this.#set({ ...job, ...kept, previews: active(job) ? (before?.previews ?? {}) : {}, begun: before?.begun });
  }

  patch(id, changes) {
    const job = this.#known.get(id);
    if (job) this.#set({ ...job, ...changes });
  }

  drop(id) {
    this.#known.delete(id);
    this.dispatchEvent(new CustomEvent("dropped", { detail: id }));
  }

  clear() {
    for (const id of [...this.#known.keys()]) this.drop(id);
  }

  #set(job) {
    this.#known.set(job.id, job);
    this.dispatchEvent(new CustomEvent("changed", { detail: job }));
  }
}
