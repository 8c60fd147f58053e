// The picture that a render begins with, where the model takes one, and how much of it may change.
import { at } from "./elements.js";

export class Start {
  #file = null;

  constructor() {
    at("image").addEventListener("change", ({ target }) => {
      if (target.files[0]) this.take(target.files[0]);
      target.value = ""; // so that the same file can be picked again
    });
    at("no-image").addEventListener("click", () => {
      this.take(null);
      at("image").focus();
    });
  }

  // What goes with the order; null where it begins with nothing.
  get chosen() {
    return this.#file && !at("start-field").hidden ? { file: this.#file, strength: at("strength").value } : null;
  }

  offer(taken) {
    at("start-field").hidden = !taken;
  }

  take(file) {
    const picture = at("start-picture");
    if (this.#file) URL.revokeObjectURL(picture.src);
    this.#file = file;
    if (file) {
      picture.src = URL.createObjectURL(file);
      picture.alt = `The render begins with ${file.name}`;
    } else picture.removeAttribute("src");
    at("start-chosen").hidden = !file;
    at("image").dispatchEvent(new Event("input", { bubbles: true }));
  }
}
