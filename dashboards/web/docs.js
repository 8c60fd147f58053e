// Draws the documentation from /openapi.json, with nothing loaded from elsewhere.
const element = (name, text, ...children) => {
  const made = document.createElement(name);
  if (text) made.textContent = text.replaceAll("``", "");
  made.append(...children);
  return made;
};

const placeOf = (name) => `schema-${name}`;

// What a value is, in words; other schemas are links to where they stand.
function typeOf(schema) {
  if (schema?.$ref) {
    const name = schema.$ref.split("/").pop();
    const link = element("a", name);
    link.href = `#${placeOf(name)}`;
    return [link];
  }
  const choices = schema?.anyOf ?? schema?.oneOf;
  if (choices) return choices.flatMap((one, index) => [...(index ? [" or "] : []), ...typeOf(one)]);
  if (schema?.const !== undefined) return [JSON.stringify(schema.const)];
  if (schema?.enum) return [schema.enum.map((value) => JSON.stringify(value)).join(" or ")];
  const kind = [schema?.type ?? "any"].flat().join(" or ");
  if (schema?.items) return [`${kind} of `, ...typeOf(schema.items)];
  return [schema?.format ? `${kind} (${schema.format})` : kind];
}

const BOUNDS = {
  minimum: "from", exclusiveMinimum: "above", maximum: "to", minLength: "characters, from", maxLength: "characters, to",
  maxItems: "items, to", maxProperties: "entries, to", pattern: "like",
};

const boundsOf = (schema) => [schema, ...(schema?.anyOf ?? schema?.oneOf ?? [])]
  .flatMap((one) => Object.entries(BOUNDS).filter(([name]) => one?.[name] !== undefined).map(([name, words]) => `${words} ${one[name]}`))
  .concat([undefined, null].includes(schema?.default) ? [] : [`by default ${JSON.stringify(schema.default)}`])
  .join("; ");

function rows(lines) {
  return element("table", "", ...lines.map((cells) => element("tr", "", ...cells.map((cell) => element("td", "", ...[cell].flat())))));
}

function answerRows(operation) {
  return Object.entries(operation.responses ?? {}).map(([status, answer]) => {
    const contents = Object.entries(answer.content ?? {}).map(([type, body]) => element("div", "", `${type}: `, ...typeOf(body.schema)));
    return [status, answer.description ?? "", contents];
  });
}

function drawSchema(name, schema) {
  const summary = element("summary", "", element("code", name));
  const fields = Object.entries(schema.properties ?? {}).map(([field, one]) => [
    element("code", field), [...typeOf(one), schema.required?.includes(field) ? ", required" : ""], [one.description, boundsOf(one)].filter(Boolean).join(" "),
  ]);
  const parts = [summary, element("p", schema.description ?? "")];
  parts.push(fields.length ? rows(fields) : element("p", "", ...typeOf(schema)));
  const made = element("details", "", ...parts);
  made.id = placeOf(name);
  return made;
}

function drawOperation(path, method, operation) {
  const title = element("summary", "", element("code", `${method.toUpperCase()} ${path}`), ` ${operation.summary}`);
  const parts = [title, element("p", operation.description)];
  const parameters = (operation.parameters ?? []).map((one) => [one.name, one.in, one.description ?? ""]);
  if (parameters.length) parts.push(element("h3", "Parameters"), rows(parameters));
  for (const [type, body] of Object.entries(operation.requestBody?.content ?? {}))
    parts.push(element("h3", "Body"), element("p", "", `${type}: `, ...typeOf(body.schema)));
  parts.push(element("h3", "Answers"), rows(answerRows(operation)));
  return element("details", "", ...parts);
}

const api = await (await fetch("/openapi.json")).json();
const target = document.getElementById("operations");
target.replaceChildren(element("h2", "Endpoints"));
for (const [path, operations] of Object.entries(api.paths).sort())
  for (const [method, operation] of Object.entries(operations)) target.append(drawOperation(path, method, operation));
target.append(element("h2", "Schemas"));
for (const [name, schema] of Object.entries(api.components?.schemas ?? {}).sort()) target.append(drawSchema(name, schema));

const openNamed = () => document.getElementById(decodeURIComponent(location.hash.slice(1)))?.setAttribute("open", "");
addEventListener("hashchange", openNamed);
openNamed();
