// What this browser remembers. A browser may forbid it: then nothing is.
const box = (kind) => {
  try {
    return window[kind];
  } catch {
    return null;
  }
};

export function recall(name, kind = "localStorage") {
  try {
    return JSON.parse(box(kind)?.getItem(`safelight.${name}`) ?? "null");
  } catch {
    return null;
  }
}

export function remember(name, value, kind = "localStorage") {
  try {
    box(kind)?.setItem(`safelight.${name}`, JSON.stringify(value));
  } catch {
    // full, or forbidden
  }
}

export function forget(name) {
  for (const kind of ["localStorage", "sessionStorage"]) {
    try {
      box(kind)?.removeItem(`safelight.${name}`);
    } catch {
      // forbidden
    }
  }
}
