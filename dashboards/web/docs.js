// Draws the documentation from /openapi.json, with nothing loaded from elsewhere.
const element = (name, text, ...children) => {
  const made = document.createElement(name);
  if (text) made.textContent = text;
  made.append(...children);
  return made;
};

const nameOf = (schema) => schema?.$ref?.split("/").pop() ?? [schema?.type ?? "any"].flat().join(" or ");

function rows(pairs) {
  return element("table", "", ...pairs.map((cells) => element("tr", "", ...cells.map((cell) => element("td", cell)))));
}

function answerRows(operation) {
  return Object.entries(operation.responses ?? {}).map(([status, answer]) => {
    const contents = Object.entries(answer.content ?? {}).map(([type, body]) => `${type}: ${nameOf(body.schema)}`);
    return [status, answer.description ?? "", contents.join(", ")];
  });
}

function drawOperation(path, method, operation) {
  const title = element("summary", "", element("code", `${method.toUpperCase()} ${path}`), ` ${operation.summary}`);
  const parts = [title, element("p", operation.description)];
  const parameters = (operation.parameters ?? []).map((one) => [one.name, one.in, one.description ?? ""]);
  if (parameters.length) parts.push(element("h3", "Parameters"), rows(parameters));
  for (const [type, body] of Object.entries(operation.requestBody?.content ?? {}))
    parts.push(element("h3", "Body"), element("p", `${type}: ${nameOf(body.schema)}`));
  parts.push(element("h3", "Answers"), rows(answerRows(operation)));
  return element("details", "", ...parts);
}

const api = await (await fetch("/openapi.json")).json();
const target = document.getElementById("operations");
for (const [path, operations] of Object.entries(api.paths).sort())
  for (const [method, operation] of Object.entries(operations)) target.append(drawOperation(path, method, operation));
target.append(element("h2", "Schemas"));
for (const [name, schema] of Object.entries(api.components?.schemas ?? {}))
  target.append(element("details", "", element("summary", name), element("pre", JSON.stringify(schema, null, 2))));
