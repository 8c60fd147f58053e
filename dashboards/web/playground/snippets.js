// The same request for a terminal or a program.
const shell = (text) => `'${text.replaceAll("'", "'\\''")}'`;

export function asCurl(body, withKey) {
  const lines = [`curl -s ${location.origin}/v1/jobs`, "-H 'content-type: application/json'"];
  if (withKey) lines.push('-H "authorization: Bearer $SAFELIGHT_API_KEY"');
  return [...lines, `-d ${shell(JSON.stringify(body))}`].join(" \\\n  ");
}

const python = (value, deep = "") => {
  if (value === true) return "True";
  if (value === null) return "None";
  if (typeof value !== "object") return JSON.stringify(value);
  const inner = Object.entries(value).map(([name, one]) => `${deep}    ${JSON.stringify(name)}: ${python(one, `${deep}    `)},`);
  return `{\n${inner.join("\n")}\n${deep}}`;
};

export function asPython(body, withKey) {
  const headers = withKey ? ', headers={"authorization": f"Bearer {os.environ[\'SAFELIGHT_API_KEY\']}"}' : "";
  return [
    ...(withKey ? ["import os", ""] : []),
    "import httpx",
    "",
    `with httpx.Client(base_url=${JSON.stringify(location.origin)}, timeout=60${headers}) as http:`,
    `    job = http.post("/v1/jobs", headers={"prefer": "wait=50"}, json=${python(body, "    ")}).raise_for_status().json()`,
    '    for image in job["images"]:',
    '        with open(f"{image[\'seed\']}.png", "wb") as file:',
    '            file.write(http.get(image["url"]).raise_for_status().content)',
    "",
  ].join("\n");
}
