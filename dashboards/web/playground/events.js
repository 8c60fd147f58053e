// Server-sent events over fetch: EventSource can't send a key.
export async function* eventsOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      text += value;
      const frames = text.split("\n\n");
      text = frames.pop();
      for (const frame of frames) {
        const fields = Object.fromEntries(frame.split("\n").map((line) => line.split(/: (.*)/s).slice(0, 2)));
        if (fields.event) yield { name: fields.event, data: JSON.parse(fields.data) };
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
