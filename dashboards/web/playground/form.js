// The form: adapts to the model, remembers itself, and tells what is wrong beside the field that caused it.
import { at, make, settled } from "./elements.js";
import { recall, remember } from "./stored.js";
import { sentence } from "./api.js";
import { Start } from "./start.js";

const FIELDS = ["prompt", "negative_prompt", "model", "size", "size-own", "n", "steps", "guidance", "seed", "format", "strength"];
const SHAPES = [[1, 1, "square"], [2, 3, "portrait"], [3, 2, "landscape"], [9, 16, "tall"], [16, 9, "wide"]];
const OWN = "own";
const CALLED = { n: "pictures", image: "the picture", negative_prompt: "what it should not show" }; // where the label says something else

export class Form {
  start = new Start();
  #models = [];
  #kept = recall("form") ?? {};
  #remember = settled(() => remember("form", this.#state()), 200);

  constructor({ onsubmit, onchange }) {
    this.element = at("form");
    for (const name of FIELDS) if (this.#kept[name] !== undefined && name !== "model" && name !== "size") at(name).value = this.#kept[name];
    at("further").open = this.#unusual(); // what is remembered and differs isn't hidden
    this.element.addEventListener("submit", (event) => {
      event.preventDefault();
      this.clear();
      onsubmit(this.body(), this.start.chosen);
    });
    this.element.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.element.requestSubmit();
    });
    this.element.addEventListener("input", ({ target }) => {
      this.#unmark(target);
      this.#remember();
      onchange();
    });
    at("model").addEventListener("change", () => this.#adapt());
    at("size").addEventListener("change", () => this.#own());
    at("dice").addEventListener("click", () => this.set("seed", String(Math.floor(Math.random() * 2 ** 32))));
    at("no-seed").addEventListener("click", () => this.set("seed", ""));
    at("prompt").addEventListener("input", () => this.#count());
    this.#count();
  }

  get model() {
    return this.#models.find(({ id }) => id === at("model").value);
  }

  // Nothing can be ordered before there is a key: no model is known.
  withhold() {
    for (const name of ["model", "size"]) at(name).replaceChildren(new Option("needs an API key", ""));
    this.#hold(true);
  }

  #hold(held) {
    for (const name of ["model", "size", "submit"]) at(name).disabled = held;
  }

  offer(models) {
    const before = at("model").value || this.#kept.model;
    this.#models = models;
    this.#hold(false);
    at("model").replaceChildren(...models.map(({ id }) => new Option(id, id)));
    at("model").value = (models.find(({ id }) => id === before) ?? models.find((model) => model.default) ?? models[0])?.id ?? "";
    this.#adapt(this.#kept.size, this.#kept.adapters);
  }

  set(name, value) {
    at(name).value = value;
    at(name).dispatchEvent(new Event("input", { bubbles: true }));
  }

  // What is sent. What was left empty is the model's own.
  body() {
    const body = { prompt: at("prompt").value, previews: true };
    const size = this.#size();
    for (const [name, value] of Object.entries({ model: at("model").value, size, seed: at("seed").value.trim(), format: at("format").value }))
      if (value) body[name] = value;
    for (const name of ["n", "steps", "guidance"]) if (at(name).value) body[name] = Number(at(name).value);
    if (this.model?.negative_prompt && at("negative_prompt").value.trim()) body.negative_prompt = at("negative_prompt").value;
    const adapters = this.#adapters();
    if (Object.keys(adapters).length) body.adapters = adapters;
    return body;
  }

  // The settings of a job or a picture. Tells which of them this server has no place for.
  load(settings) {
    this.clear();
    const strange = [];
    const known = this.#models.find(({ id, aliases }) => id === settings.model || aliases.includes(settings.model));
    if (known) at("model").value = known.id;
    else if (settings.model) strange.push(`the model ${settings.model}`);
    at("prompt").value = settings.prompt;
    for (const name of ["negative_prompt", "n", "steps", "guidance", "seed"]) at(name).value = settings[name] ?? "";
    if (!at("n").value) at("n").value = 1;
    if (settings.format) at("format").value = settings.format;
    this.#adapt(settings.size, settings.adapters ?? {});
    for (const name of Object.keys(settings.adapters ?? {})) if (!this.model?.adapters.includes(name)) strange.push(`the adapter ${name}`);
    if (settings.size && this.model && this.#size() !== settings.size) strange.push(`the size ${settings.size}`);
    if (this.#unusual()) at("further").open = true;
    this.#count();
    this.#remember();
    return strange;
  }

  complain({ field, message }) {
    const name = field === "size" && at("size").value === OWN ? "size-own" : field;
    const [input, place] = [at(name), at(`${field}-error`)];
    if (!input || !place) {
      at("form-error").textContent = sentence(message);
      at("form-error").hidden = false;
      return;
    }
    place.textContent = sentence(message.replace(new RegExp(`^${field}\\b`), CALLED[field] ?? field));
    place.hidden = false;
    input.setAttribute("aria-invalid", "true");
    const folded = input.closest("details");
    if (folded) folded.open = true;
    input.focus();
  }

  clear() {
    for (const place of this.element.querySelectorAll(".error")) place.hidden = true;
    for (const input of this.element.querySelectorAll("[aria-invalid]")) input.removeAttribute("aria-invalid");
  }

  #unmark(input) {
    input.removeAttribute("aria-invalid");
    const place = input.closest(".field")?.querySelector(".error");
    if (place) place.hidden = true;
    at("form-error").hidden = true;
  }

  #adapt(size, adapters = this.#adapters()) {
    const { model } = this;
    if (!model) return;
    this.#sizes(model, size ?? this.#size());
    at("steps").placeholder = model.default_steps;
    at("guidance").placeholder = model.default_guidance ?? "the model's";
    at("negative-field").hidden = !model.negative_prompt;
    this.start.offer(model.takes_images);
    this.#list(model, adapters);
    this.#own();
  }

  #sizes(model, wanted) {
    const offered = model.sizes.length ? model.sizes : shaped(model);
    const options = offered.map((size) => new Option(named(size), size));
    if (!model.sizes.length) options.push(new Option("Other…", OWN));
    at("size").replaceChildren(...options);
    at("size-hint").textContent = model.sizes.length ? "" : `Multiples of ${model.size_multiple}, from ${model.min_side} to ${model.max_side}`;
    if (!wanted || offered.includes(wanted)) at("size").value = wanted || model.default_size;
    else if (model.sizes.length || !fits(model, wanted)) at("size").value = model.default_size;
    else [at("size").value, at("size-own").value] = [OWN, wanted];
  }

  #size() {
    return at("size").value === OWN ? at("size-own").value.trim().replace(/\s*[×*]\s*/, "x") : at("size").value;
  }

  #own() {
    at("size-own-field").hidden = at("size").value !== OWN;
  }

  #list(model, chosen) {
    at("adapters-field").hidden = !model.adapters.length;
    at("adapters").replaceChildren(...model.adapters.map((name) => {
      const weight = chosen[name] ?? model.adapter_weights[name] ?? 1;
      return make("div", { class: "adapter" },
        make("label", { class: "check" }, make("input", { type: "checkbox", value: name, checked: name in chosen }), name),
        make("input", { type: "number", min: -10, max: 10, step: 0.05, value: weight, "aria-label": `Weight of ${name}` }));
    }));
  }

  #adapters() {
    return Object.fromEntries([...at("adapters").children].filter((row) => row.querySelector("[type=checkbox]").checked)
      .map((row) => [row.querySelector("[type=checkbox]").value, Number(row.querySelector("[type=number]").value)]));
  }

  #state() {
    return { ...Object.fromEntries(FIELDS.map((name) => [name, at(name).value])), size: this.body().size, adapters: this.#adapters() };
  }

  // True where more is set than what the form shows at first.
  #unusual() {
    return ["steps", "guidance", "negative_prompt"].some((name) => at(name).value) || at("format").selectedIndex > 0;
  }

  #count() {
    at("prompt").classList.toggle("long", at("prompt").value.length > 200);
  }
}

const fits = (model, size) => size.split("x").map(Number).every((side) => side >= model.min_side && side <= model.max_side && side % model.size_multiple === 0);

// Sizes of about the usual number of pixels, on the model's raster.
function shaped(model) {
  const [width, height] = model.default_size.split("x").map(Number);
  const side = Math.sqrt(width * height);
  const fit = (length) => Math.min(model.max_side, Math.max(model.min_side, Math.round(length / model.size_multiple) * model.size_multiple));
  const sizes = SHAPES.map(([across, down]) => `${fit(side * Math.sqrt(across / down))}x${fit(side * Math.sqrt(down / across))}`);
  return [...new Set([model.default_size, ...sizes])];
}

function named(size) {
  const [width, height] = size.split("x").map(Number);
  const ratio = width / height;
  const [, , word] = SHAPES.reduce((best, shape) => (Math.abs(Math.log(ratio * shape[1] / shape[0])) < Math.abs(Math.log(ratio * best[1] / best[0])) ? shape : best));
  return `${width} × ${height} ${word}`;
}
