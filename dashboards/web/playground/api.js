// Talks to the API: every call with the key, every error with the field that caused it.
import { forget, recall, remember } from "./stored.js";

const RETRIES = 2;

export class Problem extends Error {
  constructor(status, { detail, field, error } = {}) {
    super(detail ?? `the server answered ${status}`);
    this.status = status;
    this.field = field;
    this.code = error?.code;
  }
}

export const key = {
  get secret() {
    return recall("key", "sessionStorage") ?? recall("key") ?? "";
  },
  save(secret, forGood) {
    forget("key");
    if (secret) remember("key", secret, forGood ? "localStorage" : "sessionStorage");
  },
  forget: () => forget("key"),
};

export async function call(path, { method = "GET", body, signal, headers = {} } = {}) {
  const sent = { ...headers };
  const secret = key.secret;
  if (secret) sent.Authorization = `Bearer ${secret}`;
  const form = body instanceof FormData; // the browser says itself what it is
  if (body !== undefined && !form) sent["Content-Type"] = "application/json";
  const response = await fetch(path, { method, signal, headers: sent, body: form ? body : body && JSON.stringify(body) });
  if (response.ok) return response;
  if (response.status === 401) window.dispatchEvent(new CustomEvent("key-wanted", { detail: Boolean(secret) }));
  throw new Problem(response.status, await response.json().catch(() => ({})));
}

export const read = async (path, options) => (await call(path, options)).json();

// A submit may be sent again under its Idempotency-Key: where the network broke, nothing is rendered twice.
// `start` is the picture that it begins with, if any.
export async function submit(body, start = null) {
  const headers = { "Idempotency-Key": newId() };
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await (start ? edit(body, start, headers) : read("/v1/jobs", { method: "POST", body, headers }));
    } catch (error) {
      if (error instanceof Problem || attempt >= RETRIES) throw error;
      await new Promise((resume) => setTimeout(resume, 500 * (attempt + 1)));
    }
  }
}

async function edit({ adapters = {}, ...fields }, { file, strength }, headers) {
  const form = new FormData();
  for (const [name, value] of Object.entries({ ...fields, strength })) form.set(name, value);
  for (const [name, weight] of Object.entries(adapters)) form.set(`adapters[${name}]`, weight);
  form.set("image", file);
  const { id } = await read("/v1/images/edits", { method: "POST", body: form, headers: { ...headers, Prefer: "respond-async" } });
  return read(`/v1/jobs/${id}`);
}

// crypto.randomUUID wants a secure context; a page over plain HTTP is none.
const newId = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

export function plainly(error) {
  if (error instanceof Problem) {
    if (error.status === 401) return "This server wants an API key, and the one in use doesn't count. Enter one at the top.";
    return sentence(error.message);
  }
  return "The server can't be reached. Is it running? This page tries again by itself.";
}

// A message's moments, as a clock and a calendar here have them.
export const withTimes = (text) => text.replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, (moment) => new Date(moment).toLocaleString([], { dateStyle: "medium", timeStyle: "short" }));

export const sentence = (text) => {
  const told = withTimes(text);
  const begun = told.charAt(0).toUpperCase() + told.slice(1);
  return /[.!?]$/.test(begun) ? begun : `${begun}.`;
};
