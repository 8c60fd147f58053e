// Pictures that are dragged in or picked: their settings go into the form, or a render begins with them.
import { at } from "./elements.js";
import { parse } from "./infotext.js";
import { MOST_BYTES, textIn } from "./metadata.js";

export function acceptPictures({ onsettings, onforeign, onstart }) {
  const take = async (file) => {
    if (!file) return;
    try {
      if (file.size > MOST_BYTES) return onforeign(`${file.name} is too large to look into.`);
      const text = await textIn(new Uint8Array(await file.arrayBuffer()));
      const settings = text && parse(text);
      if (settings) onsettings(settings, file.name);
      else onforeign(`${file.name} carries no settings: it wasn't made here, or another program took them out.`);
    } catch {
      onforeign(`${file.name} is no PNG, JPEG or WebP picture that can be read.`);
    }
  };
  const carries = (event) => event.dataTransfer?.types.includes("Files");
  let depth = 0; // enter and leave come for every element on the way
  const veil = (shown) => at("veil").classList.toggle("shown", shown);
  window.addEventListener("dragenter", (event) => {
    if (carries(event)) veil((depth += 1) > 0);
  });
  window.addEventListener("dragleave", (event) => {
    if (carries(event)) veil((depth = Math.max(0, depth - 1)) > 0);
  });
  window.addEventListener("dragover", (event) => carries(event) && event.preventDefault());
  window.addEventListener("drop", (event) => {
    if (!carries(event)) return;
    event.preventDefault();
    veil((depth = 0) > 0);
    const [file] = event.dataTransfer.files;
    if (file && event.target.closest?.("#start-field")) onstart(file);
    else take(file);
  });
  at("pick").addEventListener("change", ({ target }) => {
    take(target.files[0]);
    target.value = "";
  });
}
