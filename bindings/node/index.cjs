// Doppler for Node.  Each model runs in a doppler-exec process, which this package starts, uses over a loopback connection with a
// random key, and ends.  The package has no native code and no dependencies.  index.d.cts has the types and documents the methods;
// index.js re-exports this file for `import`.
'use strict';
const { spawn } = require('node:child_process');
const { randomBytes } = require('node:crypto');
const { mkdtemp, rm, writeFile } = require('node:fs/promises');
const http = require('node:http');
const { tmpdir } = require('node:os');
const path = require('node:path');

const MOST_LOG = 65536; // maximum stored characters of the process's output

class DopplerError extends Error {
  constructor(message, { status = 0, code = null, param = null } = {}) {
    super(message);
    this.name = 'DopplerError';
    this.status = status;
    this.code = code;
    this.param = param;
  }
}

// Maps options to the names of the server's request members.
const names = {
  __proto__: null,
  maxTokens: 'max_tokens', temperature: 'temperature', topP: 'top_p', topK: 'top_k', minP: 'min_p', seed: 'seed', stop: 'stop',
  presencePenalty: 'presence_penalty', frequencyPenalty: 'frequency_penalty', repeatPenalty: 'repeat_penalty', logitBias: 'logit_bias',
  grammar: 'grammar', ignoreEos: 'ignore_eos', lora: 'lora', tools: 'tools', toolChoice: 'tool_choice', model: 'model',
  reasoningEffort: 'reasoning_effort',
};

function bodyOf(options) {
  const body = {};
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || name === 'signal') continue;
    if (name === 'schema') body.response_format = { type: 'json_schema', json_schema: { name: 'answer', schema: value } };
    else if (names[name]) body[names[name]] = value;
    else throw new TypeError(`there is no option ${name}`);
  }
  return body;
}

const talk = (messages) => (typeof messages === 'string' ? [{ role: 'user', content: messages }] : messages);

// Sends a request, and resolves to the response when it begins.  Has no timeout, unlike fetch(), because long texts take long.
function ask(url, { method, headers, body, signal }) {
  return new Promise((resolve, reject) => {
    http.request(url, { method, headers, signal }, resolve).on('error', reject).end(body);
  });
}

// Yields the pieces of a response as text.
async function* piecesOf(response, signal) {
  try {
    yield* response.setEncoding('utf8');
  } catch (error) {
    if (signal?.aborted) throw signal.reason;
    throw new DopplerError(`the answer was cut off: ${error.message}`);
  }
}

async function textOf(response, signal) {
  let text = '';
  for await (const piece of piecesOf(response, signal)) text += piece;
  return text;
}

// Yields the events of a stream as objects.
async function* eventsOf(response, signal) {
  let text = '';
  for await (const piece of piecesOf(response, signal)) {
    text += piece;
    for (let end; (end = text.indexOf('\n\n')) >= 0; text = text.slice(end + 2)) {
      const line = text.slice(0, end).split('\n').find((l) => l.startsWith('data: '));
      if (!line) continue; // a keep-alive comment
      if (line === 'data: [DONE]') return;
      const event = JSON.parse(line.slice(6));
      if (event.error) throw new DopplerError(event.error.message, event.error);
      yield event;
    }
  }
  throw new DopplerError('the stream was cut off');
}

// Resolves to the model's name and the server's URL when the process prints them.
function ready(child, log, signal) {
  return new Promise((resolve, reject) => {
    let out = '';
    const aborted = () => fail(signal.reason);
    const fail = (error) => {
      signal?.removeEventListener('abort', aborted);
      reject(error);
    };
    child.once('error', (e) => fail(new DopplerError(`doppler-exec cannot be started: ${e.message}`)));
    child.once('exit', (code, by) => {
      const said = log.text.trim().split('\n').filter((l) => l.includes('error: ')).pop();
      fail(new DopplerError(said ? said.replace(/^doppler-exec: /, '') : `doppler-exec ended (${by ?? code})`));
    });
    signal?.addEventListener('abort', aborted, { once: true });
    child.stdout.setEncoding('utf8').on('data', (piece) => {
      out = (out + piece).slice(-MOST_LOG);
      const found = /^serving (.*) on (http:\S+) .*\n/m.exec(out);
      if (!found) return;
      signal?.removeEventListener('abort', aborted);
      resolve({ name: found[1], url: found[2] });
    });
  });
}

// Running child processes, which are killed when this process exits.
const running = new Set();
process.on('exit', () => running.forEach((child) => child.kill('SIGKILL')));

class Model {
  #child;
  #key;
  #ended;

  constructor(child, key, { name, url }) {
    this.#child = child;
    this.#key = key;
    this.name = name;
    this.url = url;
    this.#ended = new Promise((resolve) => child.once('exit', resolve));
  }

  static async open(plan, { program = 'doppler-exec', args = [], log, signal } = {}) {
    const folder = await mkdtemp(path.join(tmpdir(), 'doppler-'));
    const key = randomBytes(24).toString('hex'), file = path.join(folder, 'key'), said = { text: '' };
    let child;
    try {
      signal?.throwIfAborted();
      await writeFile(file, key + '\n', { mode: 0o600 });
      child = spawn(program, [plan, '--serve', '127.0.0.1:0', '--api-key-file', file, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
      running.add(child);
      child.once('exit', () => running.delete(child));
      child.stderr.setEncoding('utf8').on('data', (piece) => {
        said.text = (said.text + piece).slice(-MOST_LOG);
        log?.(piece);
      });
      return new Model(child, key, await ready(child, said, signal));
    } catch (error) {
      child?.kill('SIGKILL');
      throw error;
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }

  /** Headers that other clients need for requests to `url`. */
  get headers() {
    return { Authorization: `Bearer ${this.#key}` };
  }

  async #ask(where, body, signal) {
    let response;
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) throw new DopplerError('the model is closed');
    try {
      response = await ask(this.url + where, {
        method: 'POST', signal, body: JSON.stringify(body), headers: { ...this.headers, 'Content-Type': 'application/json' } });
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      if (error instanceof TypeError) throw error; // the options cannot be converted to JSON
      throw new DopplerError(`doppler-exec does not answer: ${error.message}`);
    }
    if (response.statusCode === 200) return response;
    const text = await textOf(response, signal);
    let about = {};
    try {
      about = JSON.parse(text).error;
    } catch { /* not JSON: the text is the message */ }
    throw new DopplerError(about.message ?? text, { ...about, status: response.statusCode });
  }

  async #json(where, body, signal) {
    return JSON.parse(await textOf(await this.#ask(where, body, signal), signal));
  }

  async *write(prompt, options = {}) {
    const body = { ...bodyOf(options), prompt, stream: true };
    for await (const event of eventsOf(await this.#ask('/v1/completions', body, options.signal), options.signal)) {
      const text = event.choices[0]?.text;
      if (text) yield text;
    }
  }

  async read(prompt, options = {}) {
    const r = await this.#json('/v1/completions', { ...bodyOf(options), prompt }, options.signal);
    return { text: r.choices[0].text, end: r.choices[0].finish_reason, promptTokens: r.usage.prompt_tokens, tokens: r.usage.completion_tokens };
  }

  async *answer(messages, options = {}) {
    const body = { ...bodyOf(options), messages: talk(messages), stream: true };
    for await (const event of eventsOf(await this.#ask('/v1/chat/completions', body, options.signal), options.signal)) {
      const text = event.choices[0]?.delta.content;
      if (text) yield text;
    }
  }

  async reply(messages, options = {}) {
    const r = await this.#json('/v1/chat/completions', { ...bodyOf(options), messages: talk(messages) }, options.signal);
    return { message: r.choices[0].message, end: r.choices[0].finish_reason, promptTokens: r.usage.prompt_tokens, tokens: r.usage.completion_tokens };
  }

  async embed(texts, { dimensions, pooling, promptName, signal } = {}) {
    const r = await this.#json('/v1/embeddings', {
      input: texts, encoding_format: 'base64', dimensions, pooling, prompt_name: promptName }, signal);
    return r.data.map((d) => {
      const bytes = Buffer.from(d.embedding, 'base64');
      return Float32Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readFloatLE(4 * i));
    });
  }

  async rank(query, documents, { topN, signal } = {}) {
    const r = await this.#json('/v1/rerank', { query, documents, top_n: topN }, signal);
    return r.results.map(({ index, relevance_score: score }) => ({ index, score }));
  }

  async tokenize(text, { addSpecial = false, parseSpecial = true } = {}) {
    return (await this.#json('/tokenize', { content: text, add_special: addSpecial, parse_special: parseSpecial })).tokens;
  }

  async detokenize(ids) {
    return (await this.#json('/detokenize', { tokens: ids })).content;
  }

  async render(messages, { tools } = {}) {
    return (await this.#json('/apply-template', { messages: talk(messages), tools })).prompt;
  }

  async close() {
    if (this.#child.exitCode === null && this.#child.signalCode === null) this.#child.kill('SIGTERM');
    await this.#ended;
  }
}
if (Symbol.asyncDispose) Model.prototype[Symbol.asyncDispose] = Model.prototype.close;

module.exports = { DopplerError, Model };
