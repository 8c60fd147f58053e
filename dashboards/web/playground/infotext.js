// The settings in the words that image generators write: the prompt, "Negative prompt: …", "Steps: 8, Seed: 7, …".
const LAST = /^Steps: \d+(, |$)/;

export function parse(text) {
  const lines = text.trim().split("\n");
  const at = lines.findLastIndex((line) => LAST.test(line.trim()));
  if (at < 0) return null;
  const above = lines.slice(0, at);
  const negativeAt = above.findIndex((line) => line.startsWith("Negative prompt:"));
  const prompt = (negativeAt < 0 ? above : above.slice(0, negativeAt)).join("\n").trim();
  if (!prompt) return null;
  const found = { prompt, ...rest(lines[at]) };
  if (negativeAt >= 0) found.negative_prompt = above.slice(negativeAt).join("\n").slice("Negative prompt:".length).trim();
  return found;
}

function rest(line) {
  const pairs = Object.fromEntries([...line.matchAll(/\s*([A-Za-z][\w /-]*): ("(?:\\.|[^"\\])*"|[^,]*)(?:,|$)/g)].map(([, name, value]) => [name, value.trim()]));
  const found = {};
  if (pairs.Steps) found.steps = Number(pairs.Steps);
  if (pairs.Seed && /^\d+$/.test(pairs.Seed)) found.seed = pairs.Seed;
  if (/^\d+x\d+$/.test(pairs.Size ?? "")) found.size = pairs.Size;
  if (pairs["CFG scale"]) found.guidance = Number(pairs["CFG scale"]);
  if (pairs.Model) found.model = pairs.Model;
  if (pairs.Adapters)
    found.adapters = Object.fromEntries(pairs.Adapters.split(" ").map((one) => one.split("=")).map(([name, weight]) => [name, Number(weight)]));
  return found;
}
