// Speaks to the API at the URL of the first argument through OpenAI's client and Vercel's AI SDK, and prints what came.
import OpenAI, { toFile } from 'openai';
import { createOpenAI } from '@ai-sdk/openai';
import { generateImage } from 'ai';

const baseURL = `${process.argv[2]}/v1`;
const picture = Buffer.from(process.argv[3], 'base64');
const client = new OpenAI({ baseURL, apiKey: 'none' });
const provider = createOpenAI({ baseURL, apiKey: 'none' });
const told = {};

const kindOf = (base64) => {
  const bytes = Buffer.from(base64, 'base64');
  if (bytes.toString('base64') !== base64) throw new Error('not strict base64');
  return bytes.subarray(1, 4).toString('latin1');
};

const answer = await client.images.generate({ model: 'gpt-image-1', prompt: 'a red circle', n: 2, size: '64x64', quality: 'low' });
told.generate = { kinds: answer.data.map((image) => kindOf(image.b64_json)), size: answer.size, usage: answer.usage.total_tokens };

const linked = await client.images.generate({ model: 'dall-e-3', prompt: 'a red circle' });
const fetched = await fetch(linked.data[0].url);
told.url = { status: fetched.status, type: fetched.headers.get('content-type') };

const stream = await client.images.generate({ model: 'gpt-image-1', prompt: 'a blue star', stream: true, partial_images: 2 });
told.stream = [];
for await (const event of stream) told.stream.push(event.type);

const edited = await client.images.edit({ model: 'gpt-image-1', prompt: 'a star', image: [await toFile(picture, 'a.png', { type: 'image/png' })] });
told.edit = kindOf(edited.data[0].b64_json);

const models = await client.models.list();
told.models = models.data.map((model) => model.id);
told.model = (await client.models.retrieve('dall-e-3')).id;

try {
  await client.images.generate({ prompt: 'fail once', maxRetries: 2 });
} catch (error) {
  told.failure = { status: error.status, code: error.code, type: error.type };
}
try {
  for await (const event of await client.images.generate({ prompt: 'fail streaming', stream: true })) told.none = event;
} catch (error) {
  told.streamFailure = String(error.message ?? error);
}
try {
  await client.images.generate({ prompt: 'x', size: '3x3' });
} catch (error) {
  told.refused = { status: error.status, param: error.param };
}

const vercel = await generateImage({ model: provider.image('gpt-image-1'), prompt: 'a ring', n: 2, size: '64x64' });
told.vercel = vercel.images.map((image) => [kindOf(image.base64), image.mediaType]);

const vercelEdit = await generateImage({ model: provider.image('gpt-image-1'), prompt: { text: 'a star', images: [picture] } });
told.vercelEdit = kindOf(vercelEdit.image.base64);

console.log(JSON.stringify(told));
