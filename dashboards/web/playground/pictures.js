// Pictures are fetched, since an <img> can't send a key; when they are near the view, a few at a time, each once.
import { call } from "./api.js";

const AT_ONCE = 3;
const MOST_KEPT = 400;
const kept = new Map(); // from a picture's address to the promise of its object URL
const line = [];
let busy = 0;

export function pictureOf(url) {
  if (!kept.has(url)) {
    kept.set(url, queued(url));
    kept.get(url).catch(() => kept.delete(url)); // so that it is asked for again
  }
  const found = kept.get(url);
  kept.delete(url);
  kept.set(url, found);
  return found;
}

// Old pictures leave the memory only when no element shows them.
function trim() {
  for (const [url, promise] of kept) {
    if (kept.size <= MOST_KEPT) return;
    if (document.querySelector(`img[data-url="${CSS.escape(url)}"]`)) continue;
    kept.delete(url);
    promise.then((address) => URL.revokeObjectURL(address), () => {});
  }
}

export function forgetPictures() {
  for (const promise of kept.values()) promise.then((address) => URL.revokeObjectURL(address), () => {});
  kept.clear();
}

function queued(url) {
  return new Promise((found, failed) => {
    line.push({ url, found, failed });
    work();
  });
}

async function work() {
  if (busy >= AT_ONCE || !line.length) return;
  busy += 1;
  const { url, found, failed } = line.shift();
  try {
    found(URL.createObjectURL(await (await call(url)).blob()));
    trim();
  } catch (error) {
    failed(error);
  } finally {
    busy -= 1;
    work();
  }
}

const near = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    near.unobserve(target);
    load(target);
  }
}, { rootMargin: "400px" });

export function showLater(picture, url) {
  picture.dataset.url = url;
  near.observe(picture);
}

async function load(picture) {
  try {
    const address = await pictureOf(picture.dataset.url);
    picture.src = address;
    await picture.decode();
    picture.classList.add("developed");
  } catch (error) {
    picture.dispatchEvent(new CustomEvent("missing", { detail: error }));
  }
}

// For a file with its own name.
export async function save(url, name) {
  const link = document.createElement("a");
  link.href = await pictureOf(url);
  link.download = name;
  link.click();
}
