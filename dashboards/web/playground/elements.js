// Makes elements: no markup is ever put together from text.
const SVG = "http://www.w3.org/2000/svg";

const icons = {
  dice: "M4 4h16v16H4zM8.5 8.5h.01M15.5 8.5h.01M12 12h.01M8.5 15.5h.01M15.5 15.5h.01",
  download: "M12 4v11m0 0-4.5-4.5M12 15l4.5-4.5M5 20h14",
  reuse: "M4 7h9M17 7h3M4 17h3M11 17h9M15 4.5v5M9 14.5v5",
  vary: "M4 8h3c4 0 6 8 10 8h3m0 0-2.5-2.5M20 16l-2.5 2.5M4 16h3c1.5 0 2.7-1.100 3.700-2.600M13.500 10.200c1-1.300 2.200-2.200 3.500-2.200h3m0 0-2.500-2.500M20 8l-2.500 2.500",
  four: "M4 4h6.500v6.500H4zM13.500 4H20v6.500h-6.500zM4 13.500h6.500V20H4zM13.500 13.500H20V20h-6.500z",
  link: "M10 14a4 4 0 0 0 6 .400l3-3a4 4 0 0 0-5.700-5.700l-1.100 1.100M14 10a4 4 0 0 0-6-.400l-3 3a4 4 0 0 0 5.700 5.700l1.100-1.100",
  code: "M8.500 7 4 12l4.500 5M15.500 7l4.500 5-4.500 5",
};

export const at = (id) => document.getElementById(id);

// make("button", {class: "small", onclick: go}, "Go"): attributes, listeners by their on…, children.
export function make(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) {
    if (attribute.startsWith("on")) made.addEventListener(attribute.slice(2), value);
    else if (value === true) made.setAttribute(attribute, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(attribute, value);
  }
  made.append(...children.filter((child) => child !== null && child !== false));
  return made;
}

export function icon(name) {
  const drawn = document.createElementNS(SVG, "svg");
  for (const [attribute, value] of [["viewBox", "0 0 24 24"], ["class", "icon"], ["aria-hidden", "true"]])
    drawn.setAttribute(attribute, value);
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", icons[name]);
  drawn.append(path);
  return drawn;
}

// What happened, for who can't see it, and for a few seconds at the page's foot for who can.
let hide;
export function say(text) {
  const place = at("said");
  place.textContent = text;
  place.classList.add("shown");
  clearTimeout(hide);
  hide = setTimeout(() => place.classList.remove("shown"), 4000);
}

// Takes that back, where it is still on show and holds no more.
export function unsay(text) {
  const place = at("said");
  if (place.textContent === text) place.classList.remove("shown");
}

// Calls `work` once things have been quiet for `ms`.
export function settled(work, ms) {
  let timer;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(work, ms);
  };
}
