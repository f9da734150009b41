#!/usr/bin/env node
// OpenAI's Node client, unmodified, against one base URL: openai_client.mjs BASE MODEL CHECK... [--NAME VALUE].
// Each check prints `ok NAME JSON` with what the client saw; the first that fails ends the program with exit code 1.

import fs from 'node:fs';
import OpenAI from 'openai';

const messages = [{ role: 'user', content: 'hello' }];
const place = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
const tools = [{ type: 'function', function: { name: 'get_weather', parameters: place } }];

const calls = (message) =>
  (message.tool_calls ?? []).map((call) => ({ id: call.id, name: call.function.name, arguments: call.function.arguments }));

async function collected(events, textOf) {
  const pieces = [];
  let tokens = null;
  for await (const event of events) {
    const text = textOf(event);
    if (text) pieces.push(text);
    tokens = event.usage?.completion_tokens ?? tokens;
  }
  return { text: pieces.join(''), chunks: pieces.length, tokens };
}

async function raised(run) {
  try {
    return { unexpected: await run() };
  } catch (error) {
    if (!(error instanceof OpenAI.OpenAIError)) throw error;
    return { class: error.constructor.name, status: error.status ?? null, code: error.code ?? null, type: error.type ?? null, message: error.message };
  }
}

const checks = {
  async models(client) {
    const ids = [];
    for await (const model of client.models.list()) ids.push(model.id);
    return ids;
  },
  async chat(client, { model, tokens }) {
    const answer = await client.chat.completions.create({ model, messages, max_tokens: tokens });
    return { text: answer.choices[0].message.content, tokens: answer.usage.completion_tokens };
  },
  async stream(client, { model, tokens }) {
    const options = { model, messages, max_tokens: tokens, stream: true, stream_options: { include_usage: true } };
    return collected(await client.chat.completions.create(options), (event) => event.choices[0]?.delta.content);
  },
  async completion(client, { model, tokens }) {
    const answer = await client.completions.create({ model, prompt: 'hello', max_tokens: tokens });
    return { text: answer.choices[0].text, tokens: answer.usage.completion_tokens };
  },
  async embeddings(client, { embeddingsModel }) {
    const answer = await client.embeddings.create({ model: embeddingsModel, input: ['hello', 'world'] });
    return { dimensions: answer.data.map((item) => item.embedding.length) };
  },
  async responses(client, { model, tokens }) {
    const answer = await client.responses.create({ model, input: 'hello', max_output_tokens: tokens });
    return { text: answer.output_text, tokens: answer.usage.output_tokens };
  },
  async 'responses-stream'(client, { model, tokens }) {
    const options = { model, input: 'hello', max_output_tokens: tokens, stream: true };
    const types = [];
    const seen = await collected(await client.responses.create(options), (event) => {
      types.push(event.type);
      return event.type === 'response.output_text.delta' ? event.delta : null;
    });
    return { ...seen, first: types[0], last: types.at(-1) };
  },
  async tools(client, { model }) {
    const { message, finish_reason: finish } = (await client.chat.completions.create({ model, messages, tools })).choices[0];
    return { finish, calls: calls(message) };
  },
  // The client puts the calls together from their pieces, by index.
  async 'tools-stream'(client, { model }) {
    const events = client.chat.completions.stream({ model, messages, tools });
    const { message, finish_reason: finish } = (await events.finalChatCompletion()).choices[0];
    return { finish, calls: calls(message) };
  },
  async vision(client, { model, file }) {
    const url = `data:image/png;base64,${fs.readFileSync(file, 'utf8')}`;
    const parts = [{ type: 'text', text: 'what is this?' }, { type: 'image_url', image_url: { url } }];
    const answer = await client.chat.completions.create({ model, messages: [{ role: 'user', content: parts }] });
    return { text: answer.choices[0].message.content };
  },
  // The form's fields come in the order of these keys.
  async transcription(client, { model, file }) {
    return (await client.audio.transcriptions.create({ file: fs.createReadStream(file), model, language: 'en' })).text;
  },
  async error(client, { model }) {
    return raised(() => client.chat.completions.create({ model, messages }));
  },
  async 'broken-stream'(client, { model }) {
    const pieces = [];
    const error = await raised(async () => {
      const events = await client.chat.completions.create({ model, messages, stream: true });
      for await (const event of events) pieces.push(event.choices[0].delta.content ?? '');
    });
    return { ...error, text: pieces.join('') };
  },
};

const words = process.argv.slice(2);
const options = {};
for (let at = words.findIndex((word) => word.startsWith('--')); at >= 0; at = words.findIndex((word) => word.startsWith('--'))) {
  const [name, value] = words.splice(at, 2);
  options[name.slice(2)] = value;
}
const [base, model, ...names] = words;
const client = new OpenAI({
  baseURL: base,
  apiKey: 'sk-none',
  maxRetries: 0,
  timeout: 60_000,
});
const settings = {
  model,
  embeddingsModel: options['embeddings-model'] ?? model,
  tokens: Number(options.tokens ?? 16),
  file: options.file,
};
if (names.length === 0 || names.some((name) => !(name in checks))) {
  console.error(`checks ${names.join(', ')}: known are ${Object.keys(checks).join(', ')}`);
  process.exit(1);
}
for (const name of names) {
  try {
    console.log(`ok ${name} ${JSON.stringify(await checks[name](client, settings))}`);
  } catch (error) {
    console.error(`FAILED ${name}:`, error);
    process.exit(1);
  }
}
