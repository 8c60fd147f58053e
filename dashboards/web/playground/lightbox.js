// A picture as large as the window, with its neighbours by the arrow keys.
import { at } from "./elements.js";
import { pictureOf } from "./pictures.js";

export class Lightbox {
  #all = [];
  #index = 0;

  constructor(actions) {
    this.actions = actions;
    const box = at("lightbox");
    at("earlier").addEventListener("click", () => this.#go(-1));
    at("later").addEventListener("click", () => this.#go(1));
    at("lightbox-close").addEventListener("click", () => box.close());
    at("lightbox-download").addEventListener("click", () => actions.save(this.#shown));
    at("lightbox-reuse").addEventListener("click", () => {
      box.close();
      actions.reuse(this.#shown.job, this.#shown.image);
    });
    box.addEventListener("keydown", ({ key }) => {
      if (key === "ArrowLeft") this.#go(-1);
      if (key === "ArrowRight") this.#go(1);
    });
    box.addEventListener("click", ({ target }) => target === box && box.close());
  }

  get #shown() {
    return this.#all[this.#index];
  }

  open(pictures, image) {
    this.#all = pictures;
    this.#index = Math.max(0, pictures.findIndex((one) => one.image.url === image.url));
    at("lightbox").showModal();
    this.#show();
  }

  #go(by) {
    if (!this.#all[this.#index + by]) return;
    this.#index += by;
    this.#show();
  }

  async #show() {
    const { job, image } = this.#shown;
    // Not `disabled`: that would take the focus, and the arrow keys with it.
    at("earlier").setAttribute("aria-disabled", String(this.#index === 0));
    at("later").setAttribute("aria-disabled", String(this.#index === this.#all.length - 1));
    at("lightbox-words").textContent = job.request.prompt;
    at("lightbox-facts").textContent = `${job.model} · ${image.width} × ${image.height} · seed ${image.seed} · ${this.#index + 1} of ${this.#all.length}`;
    const picture = at("lightbox-picture");
    picture.alt = `${job.request.prompt} (seed ${image.seed})`;
    picture.width = image.width;
    picture.height = image.height;
    try {
      const address = await pictureOf(image.url);
      if (this.#shown.image === image) picture.src = address;
    } catch (error) {
      at("lightbox-facts").textContent = this.actions.missing(error);
    }
  }
}
