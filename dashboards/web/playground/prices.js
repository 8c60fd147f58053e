// What orders cost, in words. Kinds of orders that cost the same are asked for once.
import { Problem, read } from "./api.js";
import { money, settingsOf } from "./words.js";

const asked = new Map();

// The price of an order, as the server tells it. Throws Problem.
export const ask = (body) => read("/v1/jobs/price", { method: "POST", body: { ...body, prompt: body.prompt || "x" } });

// "0.10 USD", of so many such orders; "" where they cost nothing.
export function inWords({ price, currency, gpu_hour: byTime }, count = 1) {
  return Number(price) ? `${byTime ? "at most " : ""}${money(times(price, count), currency)}` : "";
}

// The price of the same as a job again, so often; "" where it can't be told.
export async function again(job, count) {
  const { model, size, n, steps } = settingsOf(job.request);
  const body = { model, size, n: count > 1 ? 1 : n, steps };
  const kind = JSON.stringify(body);
  if (!asked.has(kind)) asked.set(kind, ask(body));
  try {
    return inWords(await asked.get(kind), count);
  } catch (error) {
    if (!(error instanceof Problem)) asked.delete(kind); // the network's: the next card asks anew
    return "";
  }
}

// In decimals, digit for digit.
function times(amount, count) {
  const [whole, part = ""] = amount.split(".");
  const digits = String(BigInt(whole + part) * BigInt(count)).padStart(part.length + 1, "0");
  return part ? `${digits.slice(0, -part.length)}.${digits.slice(-part.length)}` : digits;
}
