// What is told of a job, in words.
export const FINAL = ["succeeded", "failed", "canceled", "dead"];
export const active = (job) => !FINAL.includes(job.state);

export function seconds(count) {
  if (count < 1) return "a moment";
  if (count < 90) return `${Math.round(count)} s`;
  if (count < 5400) return `${Math.round(count / 60)} min`;
  return `${Math.round(count / 3600)} h`;
}

// An amount with its currency; at least two decimals, and none is dropped.
export function money(amount, currency) {
  const [whole, part = ""] = amount.split(".");
  return `${whole}.${part.padEnd(2, "0")} ${currency}`;
}

export function standing(job) {
  if (job.cancel_requested && active(job)) return "Canceling…";
  if (job.state === "scheduled") return "Waits for its time";
  if (job.state === "queued") return waiting(job.queue);
  if (job.state === "running") return running(job);
  return { succeeded: "Done", failed: "Failed", dead: "Failed", canceled: "Canceled" }[job.state];
}

function waiting({ position, eta_s: eta, paused }) {
  const place = position === null ? "In line" : position === 1 ? "Next in line" : `Number ${position} in line`;
  if (paused) return `${place}; the queue is paused`;
  return eta === null ? place : `${place}, starts in about ${seconds(eta)}`;
}

function running({ progress: { step, steps }, left }) {
  if (step === 0) return "Warming up…";
  const told = `Step ${step} of ${steps}`;
  return left >= 2 ? `${told}, about ${seconds(left)} left` : told;
}

export function price(job) {
  if (job.cache === "hit") return "free, from the cache";
  if (job.cache === "joined") return "free, shares another render";
  if (job.state === "succeeded") return Number(job.cost.charged) ? money(job.cost.charged, job.cost.currency) : "no charge";
  return active(job) && Number(job.cost.reserved) ? `${money(job.cost.reserved, job.cost.currency)} set aside` : "";
}

const REASONS = {
  deadline_exceeded: "It took longer than its deadline allowed.",
  out_of_memory: "The device has too little memory for it: try a smaller size or fewer pictures.",
  content_filtered: "The safety filter flagged it: try other words.",
  model_unavailable: "The model can't be loaded at the moment. Who runs this server can see why in the log.",
  adapter_unusable: "An adapter's file is damaged, or made for another model: try without it.",
  worker_lost: "The machine that rendered it was lost, more than once. Try again.",
  outputs_unavailable: "The picture was rendered and could not be stored. Try again.",
};

export function reason(job) {
  if (!job.error) return "";
  return REASONS[job.error.code] ?? job.error.message;
}

export function facts(job) {
  const { size, steps, guidance, negative_prompt: negative, adapters, strength } = job.request;
  const rows = [["Model", job.model], ["Size", size.replace("x", " × ")], ["Steps", steps]];
  if (job.fallback_for) rows.push(["In place of", job.fallback_for]);
  if (guidance !== null) rows.push(["Guidance", guidance]);
  if (negative) rows.push(["Without", negative]);
  if (Object.keys(adapters).length)
    rows.push(["Adapters", Object.entries(adapters).map(([name, weight]) => `${name} ${weight}`).join(", ")]);
  if (strength !== null) rows.push(["Strength", strength]);
  rows.push(["Made", new Date(job.created_at).toLocaleString()]);
  if (price(job)) rows.push(["Cost", price(job)]);
  return rows;
}

// A file name that says what is in it: "a-red-circle-42.png".
export function fileName(job, image) {
  const words = job.request.prompt.toLowerCase().normalize("NFKD").replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-+|-+$/g, "");
  const { format } = job.request;
  return `${[...words].slice(0, 60).join("").replace(/-+$/, "") || "picture"}-${image.seed}.${format === "jpeg" ? "jpg" : format}`;
}

// The fields of a submit that would make the same again.
export function settingsOf(request) {
  const { model, prompt, negative_prompt, size, n, steps, guidance, adapters, seed, format } = request;
  const body = { model, prompt, size, n, steps, seed: String(seed), format };
  if (negative_prompt) body.negative_prompt = negative_prompt;
  if (guidance !== null) body.guidance = guidance;
  if (Object.keys(adapters).length) body.adapters = adapters;
  return body;
}
