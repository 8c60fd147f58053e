// One job's card: what it stands at while it is made, then its pictures, and what can be done with them.
import { icon, make } from "./elements.js";
import { showLater } from "./pictures.js";
import { active, facts, price, reason, standing } from "./words.js";

const button = (name, label, onclick, words = "") =>
  make("button", { type: "button", class: words ? "small" : "small bare", title: label, "aria-label": words ? null : label, onclick },
    ...(name ? [icon(name)] : []), words);

export class Card {
  #shown = "";
  #frames = [];

  constructor(job, actions) {
    this.actions = actions;
    this.place = make("div", { class: "frames" });
    this.standing = make("p", { class: "standing" });
    this.progress = make("progress", { max: 1, value: 0, "aria-label": "How far it is" });
    this.trouble = make("p", { class: "trouble" });
    this.prompt = make("p", { class: "prompt" });
    this.facts = make("p", { class: "facts muted" });
    this.warnings = make("ul", { class: "warnings" });
    this.tools = make("div", { class: "tools" });
    this.details = make("details", { class: "more" }, make("summary", {}, "Details"), make("div"));
    const told = make("div", { class: "told" }, this.standing, this.progress, this.trouble, this.prompt, this.facts, this.warnings, this.tools, this.details);
    this.element = make("article", { class: "job", id: `job-${job.id}`, tabindex: -1 }, this.place, told);
    this.details.addEventListener("toggle", () => this.#tell());
    this.update(job);
  }

  update(job) {
    this.job = job;
    const shape = `${job.state} ${job.cancel_requested} ${job.images.length} ${job.cache}`;
    if (shape !== this.#shown) {
      this.#shown = shape;
      this.#build();
    }
    this.#move();
  }

  #build() {
    const { job } = this;
    this.element.dataset.state = job.state;
    this.element.setAttribute("aria-label", `${job.request.prompt}: ${standing(job)}`);
    this.prompt.textContent = job.request.prompt;
    this.prompt.title = job.request.prompt;
    this.trouble.textContent = reason(job);
    this.trouble.hidden = !job.error;
    this.warnings.replaceChildren(...job.warnings.map((warning) => make("li", {}, warning)));
    this.warnings.hidden = !job.warnings.length;
    this.progress.hidden = !active(job);
    this.place.dataset.across = Math.ceil(Math.sqrt(job.request.n));
    if (job.state === "succeeded") this.#pictures();
    else this.#blanks();
    this.#offer();
    this.#tell();
  }

  // What changes with every step.
  #move() {
    const { job } = this;
    this.standing.textContent = standing(job);
    this.standing.hidden = job.state === "succeeded";
    this.progress.value = job.progress.fraction;
    const seeds = job.request.n > 1 ? `seeds from ${job.request.seed}` : `seed ${job.request.seed}`;
    this.facts.textContent = [seeds, price(job)].filter(Boolean).join(" · ");
    if (!active(job)) return;
    this.#frames.forEach((frame, index) => this.#preview(frame, job.previews?.[index], index));
  }

  #preview(frame, image, index) {
    if (!image) return frame.querySelector("img")?.remove();
    const shown = frame.querySelector("img") ?? frame.appendChild(make("img", { class: "preview" }));
    if (shown.src !== image) shown.src = image;
    shown.alt = `preview of picture ${index + 1}: ${this.job.request.prompt}`;
    // The less is left to do, the sharper it gets.
    shown.style.setProperty("--haze", `${(1 - this.job.progress.fraction) * 8}px`);
  }

  #blanks() {
    this.#frames = Array.from({ length: this.job.request.n }, () => make("div", { class: "frame" }));
    this.place.replaceChildren(...this.#frames);
  }

  #pictures() {
    const { job } = this;
    this.#frames = job.images.map((image) => {
      const { width, height, seed, url } = image;
      const picture = make("img", { width, height, alt: `${job.request.prompt} (seed ${seed})` });
      const frame = make("button", { type: "button", class: "frame", "aria-label": `Enlarge: ${job.request.prompt} (seed ${seed})`, onclick: () => this.actions.enlarge(job, image) }, picture);
      picture.addEventListener("missing", ({ detail }) => frame.replaceChildren(make("span", { class: "missing" }, this.actions.missing(detail))));
      showLater(picture, url);
      return frame;
    });
    this.place.replaceChildren(...this.#frames);
  }

  #offer() {
    const { job, actions } = this;
    const own = !job.request.image; // a picture that it began from is not kept
    const tools = [];
    if (active(job)) tools.push(job.cancel_requested ? null : button("", "Cancel this job", () => actions.cancel(job), "Cancel"));
    if (job.state === "succeeded") tools.push(button("download", job.images.length > 1 ? "Download the pictures" : "Download the picture", () => actions.download(job)));
    if (job.state === "failed" || job.state === "dead") tools.push(button("", "Render it once more", () => actions.retry(job), "Try again"));
    tools.push(button("reuse", "Use these settings", () => actions.reuse(job)));
    if (own) {
      tools.push(this.#priced("vary", "Vary the seed", 1));
      tools.push(this.#priced("four", "Same prompt, 4 seeds", 4));
    }
    tools.push(button("link", "Copy a link to this job", () => actions.link(job)));
    this.tools.replaceChildren(...tools.filter(Boolean));
  }

  // A button that spends, and tells how much.
  #priced(name, label, count) {
    const { job, actions } = this;
    const made = button(name, label, () => actions.vary(job, count));
    actions.again(job, count).then((price) => {
      if (!price) return;
      made.title = `${label}: ${price}`;
      made.setAttribute("aria-label", made.title);
    });
    return made;
  }

  #tell() {
    if (!this.details.open) return;
    const { job, actions } = this;
    const rows = facts(job).flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, String(value))]);
    this.details.lastElementChild.replaceChildren(
      make("p", { class: "whole" }, job.request.prompt),
      make("dl", {}, ...rows),
      ...(job.request.image ? [] : [make("div", { class: "tools" },
        button("code", "Copy the request as a curl command", () => actions.copy(job, "curl"), "curl"),
        button("code", "Copy the request as a Python program", () => actions.copy(job, "python"), "Python"))]),
    );
  }
}
