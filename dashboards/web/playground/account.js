// The key in use: where it is entered, kept and forgotten.
import { key, read } from "./api.js";
import { at } from "./elements.js";
import { recall } from "./stored.js";

export class Account {
  constructor({ onchange }) {
    this.onchange = onchange;
    at("key-button").addEventListener("click", () => this.show(at("key-panel").hidden));
    at("key-form").addEventListener("submit", (event) => {
      event.preventDefault();
      key.save(at("key").value.trim(), at("key-kept").checked);
      at("key").value = "";
      this.enter();
    });
    at("key-forget").addEventListener("click", () => {
      key.forget();
      at("key").value = "";
      this.enter();
    });
    window.addEventListener("key-wanted", ({ detail: sent }) => {
      this.show(true);
      at("key-hint").textContent = sent ? "This key is not valid: it may be mistyped, revoked or expired. Enter another." : "This server wants an API key. Whoever runs it makes one with: safelight keys create NAME";
      at("key-hint").classList.toggle("error", sent);
      at("key").setAttribute("aria-invalid", String(sent));
      at("key-button").textContent = "API key wanted";
    });
    at("key-kept").checked = recall("key") !== null;
  }

  show(shown) {
    at("key-panel").hidden = !shown;
    at("key-button").setAttribute("aria-expanded", String(shown));
    if (shown) at("key").focus();
  }

  // Who the key is; null where it doesn't count. Throws what isn't about the key.
  async enter() {
    const me = await read("/v1/me").catch((error) => {
      if (error.status === 401) return null;
      throw error;
    });
    if (me) {
      at("key-hint").textContent = me.name ? `In use: ${me.name}${me.team ? `, team ${me.team}` : ""}.` : "No key is needed here at the moment.";
      at("key-hint").classList.remove("error");
      at("key").removeAttribute("aria-invalid");
      at("key-button").textContent = me.name ?? "API key";
      this.show(false);
    }
    at("key-forget").hidden = !key.secret;
    this.me = me;
    this.onchange(me);
  }
}
