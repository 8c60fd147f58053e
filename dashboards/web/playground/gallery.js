// The grid of cards, newest first: the server's list page by page, and what is submitted meanwhile.
import { Card } from "./card.js";
import { at } from "./elements.js";
import { read } from "./api.js";

const PAGE = 24;

export class Gallery {
  #cards = new Map();
  #cursor = null;
  #asking = false;

  constructor(jobs, actions) {
    this.jobs = jobs;
    this.actions = actions;
    this.first = null; // the id of a job whose card stays before all others: that of a link
    this.owner = null; // an admin's key would be told of everybody's jobs: it asks for its own
    jobs.addEventListener("changed", ({ detail: job }) => this.#show(job));
    jobs.addEventListener("dropped", ({ detail: id }) => this.#remove(id));
    at("more").addEventListener("click", () => this.more());
    new IntersectionObserver(([{ isIntersecting }]) => isIntersecting && this.more(), { rootMargin: "600px" }).observe(at("more"));
  }

  // The pictures in the order of the page.
  get pictures() {
    return [...at("gallery").children].flatMap(({ id }) => {
      const job = this.jobs.get(id.slice("job-".length));
      return job?.state === "succeeded" ? job.images.map((image) => ({ job, image })) : [];
    });
  }

  element(id) {
    return this.#cards.get(id)?.element;
  }

  // The newest page; what is on show stays.
  async refresh() {
    const first = this.#cursor === null;
    const page = await this.#page(null);
    for (const job of page.data) this.jobs.put(job, true);
    if (first) this.#turn(page.next_cursor);
    this.#count();
  }

  async more() {
    if (this.#cursor === null || this.#asking) return;
    this.#asking = true;
    try {
      const page = await this.#page(this.#cursor);
      for (const job of page.data) this.jobs.put(job);
      this.#turn(page.next_cursor);
    } catch (error) {
      this.actions.trouble(error);
    } finally {
      this.#asking = false;
    }
  }

  clear() {
    this.#cursor = null;
    at("more").hidden = true;
    this.jobs.clear();
  }

  #page(cursor) {
    const query = new URLSearchParams({ limit: PAGE });
    if (cursor) query.set("cursor", cursor);
    if (this.owner) query.set("key", this.owner);
    return read(`/v1/jobs?${query}`);
  }

  #turn(cursor) {
    this.#cursor = cursor;
    at("more").hidden = cursor === null;
  }

  #show(job) {
    const card = this.#cards.get(job.id);
    if (card) card.update(job);
    else this.#add(job);
    this.#count();
  }

  #add(job) {
    const card = new Card(job, this.actions);
    this.#cards.set(job.id, card);
    at("gallery").insertBefore(card.element, this.#after(job));
  }

  // The card before which the job's own belongs.
  #after(job) {
    const shown = [...at("gallery").children];
    if (job.id === this.first) return shown[0] ?? null;
    const ids = shown.map(({ id }) => id.slice("job-".length));
    return shown[ids.findIndex((id) => id !== this.first && this.jobs.get(id)?.created_at < job.created_at)] ?? null;
  }

  #remove(id) {
    this.#cards.get(id)?.element.remove();
    this.#cards.delete(id);
    this.#count();
  }

  #count() {
    const under = this.jobs.active.length;
    at("under-way").textContent = under ? `${under} under way` : "";
    at("empty").hidden = this.#cards.size > 0;
    document.title = under ? `(${under}) Safelight` : "Safelight";
  }
}
