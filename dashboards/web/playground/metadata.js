// Finds the settings that travel in a picture file: a PNG's text chunk, or the EXIF of a JPEG or WebP.
const latin1 = new TextDecoder("latin1");
const utf8 = new TextDecoder();
const ascii = (bytes, from, to) => latin1.decode(bytes.subarray(from, to));
const view = (bytes) => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);

export const MOST_BYTES = 64_000_000;
const MOST_TEXT = 200_000;

// The text, or null where there is none. Throws where the bytes are no picture of the three kinds.
export async function textIn(bytes) {
  if (ascii(bytes, 1, 4) === "PNG") return inPng(bytes);
  if (bytes[0] === 0xff && bytes[1] === 0xd8) return inJpeg(bytes);
  if (ascii(bytes, 0, 4) === "RIFF" && ascii(bytes, 8, 12) === "WEBP") return inWebp(bytes);
  throw new TypeError("no picture");
}

async function inPng(bytes) {
  const data = view(bytes);
  for (let at = 8; at + 12 <= bytes.length; ) {
    const length = data.getUint32(at);
    const kind = ascii(bytes, at + 4, at + 8);
    const chunk = bytes.subarray(at + 8, at + 8 + length);
    if (kind === "iTXt" || kind === "tEXt" || kind === "zTXt") {
      const text = await pngText(kind, chunk);
      if (text !== null) return text;
    }
    if (kind === "IEND") break;
    at += 12 + length;
  }
  return null;
}

// Portable Network Graphics, 11.3.3: keyword, then by kind a compression, a language, and the text.
async function pngText(kind, chunk) {
  const end = chunk.indexOf(0);
  if (ascii(chunk, 0, end) !== "parameters") return null;
  if (kind === "tEXt") return latin1.decode(chunk.subarray(end + 1));
  if (kind === "zTXt") return latin1.decode(await inflated(chunk.subarray(end + 2)));
  const language = chunk.indexOf(0, end + 3);
  const text = chunk.subarray(chunk.indexOf(0, language + 1) + 1);
  return utf8.decode(chunk[end + 1] ? await inflated(text) : text);
}

// Bounded: a small chunk may unpack to gigabytes.
async function inflated(bytes) {
  const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate")).getReader();
  const parts = [];
  for (let size = 0; size < MOST_TEXT; ) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value);
    size += value.length;
  }
  reader.cancel().catch(() => {});
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

function inJpeg(bytes) {
  const data = view(bytes);
  for (let at = 2; at + 4 <= bytes.length && bytes[at] === 0xff; at += 2 + data.getUint16(at + 2)) {
    if (bytes[at + 1] === 0xda) break; // the pixels begin
    if (bytes[at + 1] === 0xe1 && ascii(bytes, at + 4, at + 8) === "Exif")
      return inExif(bytes.subarray(at + 10, at + 2 + data.getUint16(at + 2)));
  }
  return null;
}

function inWebp(bytes) {
  const data = view(bytes);
  for (let at = 12; at + 8 <= bytes.length; ) {
    const length = data.getUint32(at + 4, true);
    if (ascii(bytes, at, at + 4) === "EXIF") {
      const chunk = bytes.subarray(at + 8, at + 8 + length);
      return inExif(ascii(chunk, 0, 4) === "Exif" ? chunk.subarray(6) : chunk);
    }
    at += 8 + length + (length % 2);
  }
  return null;
}

// TIFF 6.0 and EXIF 2.32, 4.6: a directory of 12-byte entries; 0x8769 leads to the EXIF one, 0x9286 is UserComment.
function inExif(tiff) {
  const data = view(tiff);
  const little = ascii(tiff, 0, 2) === "II";
  const find = (directory, tag) => {
    for (let entry = 0; entry < data.getUint16(directory, little); entry += 1) {
      const at = directory + 2 + entry * 12;
      if (data.getUint16(at, little) === tag) return { count: data.getUint32(at + 4, little), value: data.getUint32(at + 8, little) };
    }
    return null;
  };
  const pointer = find(data.getUint32(4, little), 0x8769);
  const comment = pointer && find(pointer.value, 0x9286);
  if (!comment) return null;
  const content = tiff.subarray(comment.value, comment.value + comment.count);
  if (ascii(content, 0, 7) === "ASCII\0\0") return ascii(content, 8);
  if (ascii(content, 0, 7) !== "UNICODE") return null;
  const big = content[8] === 0; // most writers write it big-endian, some in the file's own order
  return new TextDecoder(big ? "utf-16be" : "utf-16le").decode(content.subarray(8));
}
