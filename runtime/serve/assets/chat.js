'use strict';
const $ = (id) => document.getElementById(id);
const kept = 'doppler-chat';
const fields = ['system', 'temperature', 'tokens'];
let messages = [];
let running = null; // AbortController of the answer under way
let pictures = []; // data: URIs for the next message

// ---- what survives a reload ----
function keep() {
  const options = {};
  for (const f of fields) options[f] = $(f).value;
  const all = { messages, options, draft: $('text').value };
  try { localStorage.setItem(kept, JSON.stringify(all)); } catch (e) {
    all.messages = messages.map((m) => ({ ...m, images: undefined })); // pictures may be more than a browser keeps
    try { localStorage.setItem(kept, JSON.stringify(all)); } catch (again) { /* full or off */ }
  }
  keepKey();
}
// The key ends with the tab, unless it is to be kept: every page of this address could read it then.
function keepKey() {
  const [here, there] = $('keep-key').checked ? [localStorage, sessionStorage] : [sessionStorage, localStorage];
  try {
    there.removeItem(kept + '-key');
    if ($('key').value) here.setItem(kept + '-key', $('key').value);
    else here.removeItem(kept + '-key');
  } catch (e) { /* off */ }
}
function restoreKey() {
  try {
    const long = localStorage.getItem(kept + '-key');
    $('key').value = sessionStorage.getItem(kept + '-key') || long || '';
    $('keep-key').checked = long !== null;
  } catch (e) { /* off */ }
}
function restore() {
  let all = null;
  restoreKey();
  try { all = JSON.parse(localStorage.getItem(kept)); } catch (e) { /* damaged: begin anew */ }
  if (!all || !Array.isArray(all.messages)) return;
  messages = all.messages.filter((m) => m && typeof m.role === 'string' && typeof m.content === 'string');
  for (const m of messages) if (!Array.isArray(m.images) || !m.images.every(isPicture)) delete m.images;
  for (const f of fields) $(f).value = (all.options && all.options[f]) || '';
  $('text').value = all.draft || '';
}

// ---- drawing ----
// Blocks between ``` and words between ` are code; everything else is text as it stands.
function fill(element, text) {
  element.textContent = '';
  text.split('```').forEach((part, i) => {
    if (i % 2) {
      const pre = document.createElement('pre');
      pre.textContent = part.replace(/^[a-z0-9+-]*\n/i, '').replace(/\n$/, '');
      element.append(pre);
      return;
    }
    part.split(/`([^`\n]+)`/).forEach((piece, k) => {
      if (k % 2) {
        const code = document.createElement('code');
        code.textContent = piece;
        element.append(code);
      } else {
        element.append(piece);
      }
    });
  });
}
function isPicture(uri) {
  return typeof uri === 'string' && uri.startsWith('data:image/');
}
function thumbnail(uri) {
  const img = document.createElement('img');
  img.src = uri;
  img.alt = 'picture';
  return img;
}
function add(message) {
  const box = document.createElement('div');
  const body = document.createElement('div');
  const note = document.createElement('div');
  box.className = message.role;
  body.className = 'message';
  note.className = 'note';
  fill(body, message.content);
  note.textContent = message.note || '';
  note.classList.toggle('wrong', !!message.wrong);
  (message.images || []).forEach((uri) => body.prepend(thumbnail(uri)));
  box.append(body, note);
  $('messages').append(box);
  return { body, note };
}
function draw() {
  $('messages').textContent = '';
  messages.forEach(add);
  toEnd(true);
}
function toEnd(always) {
  const m = $('messages');
  if (always || m.scrollHeight - m.scrollTop - m.clientHeight < 120) m.scrollTop = m.scrollHeight;
}
function grow() {
  const t = $('text');
  t.style.height = 'auto';
  t.style.height = t.scrollHeight + 2 + 'px';
}
function busy(is) {
  $('send').hidden = is;
  $('stop').hidden = !is;
}

// ---- asking ----
function headers() {
  const h = { 'Content-Type': 'application/json' };
  if ($('key').value) h.Authorization = 'Bearer ' + $('key').value;
  return h;
}
function request() {
  const parts = (m) => [...m.images.map((url) => ({ type: 'image_url', image_url: { url } })), { type: 'text', text: m.content }];
  const sent = messages.filter((m) => !m.wrong || m.content)
    .map((m) => ({ role: m.role, content: m.images && m.images.length ? parts(m) : m.content }));
  if ($('system').value.trim()) sent.unshift({ role: 'system', content: $('system').value });
  const r = { messages: sent, stream: true, stream_options: { include_usage: true } };
  if ($('temperature').value !== '') r.temperature = Number($('temperature').value);
  if ($('tokens').value !== '') r.max_tokens = Number($('tokens').value);
  return r;
}
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split('\n\n');
    rest = parts.pop();
    for (const p of parts) {
      const data = p.replace(/^data: /, '');
      if (data === '[DONE]') return;
      yield JSON.parse(data);
    }
  }
}
async function answer() {
  const message = { role: 'assistant', content: '' };
  const drawn = add(message);
  const begin = performance.now();
  let first = 0, n = 0, reason = null;
  messages.push(message);
  running = new AbortController();
  busy(true);
  $('state').textContent = 'waiting';
  toEnd(true);
  try {
    const response = await fetch('v1/chat/completions',
      { method: 'POST', headers: headers(), body: JSON.stringify(request()), signal: running.signal });
    if (!response.ok) {
      const error = await response.json().catch(() => null);
      throw new Error((error && error.error && error.error.message) || 'the server answered ' + response.status);
    }
    for await (const e of events(response)) {
      if (e.error) throw new Error(e.error.message);
      if (e.usage) n = e.usage.completion_tokens;
      const choice = e.choices && e.choices[0];
      if (!choice) continue;
      if (choice.finish_reason) reason = choice.finish_reason;
      const piece = choice.delta.content;
      if (!piece) continue;
      if (!first) first = performance.now();
      else n++;
      message.content += piece;
      fill(drawn.body, message.content);
      const s = (performance.now() - first) / 1000;
      $('state').textContent = s > 0.2 ? (n / s).toFixed(1) + ' tokens/s' : 'writing';
      toEnd(false);
    }
    message.note = reason === 'length' ? 'cut: the length that was asked for is reached' : '';
  } catch (error) {
    const stopped = error.name === 'AbortError';
    message.wrong = !stopped;
    message.note = stopped ? 'stopped' : error.message;
  }
  const took = (performance.now() - (first || begin)) / 1000;
  const speed = first && n > 1 ? `${n} tokens, ${(n / took).toFixed(1)} tokens/s, first after ${Math.round(first - begin)} ms` : '';
  $('state').textContent = message.wrong ? 'failed' : speed || 'ready';
  message.note = [message.note, speed].filter(Boolean).join('; ');
  drawn.note.textContent = message.note;
  drawn.note.classList.toggle('wrong', !!message.wrong);
  running = null;
  busy(false);
  keep();
  $('text').focus();
}
function send() {
  const text = $('text').value.trim();
  if ((!text && !pictures.length) || running) return;
  const message = { role: 'user', content: text };
  if (pictures.length) message.images = pictures;
  pictures = [];
  drawPictures();
  messages.push(message);
  add(message);
  $('text').value = '';
  grow();
  keep();
  answer();
}
// Pictures of a drop or of the clipboard wait above the text; a click takes one away.
function drawPictures() {
  $('pictures').textContent = '';
  pictures.forEach((uri, i) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.title = 'Take this picture away';
    button.append(thumbnail(uri));
    button.addEventListener('click', () => { pictures.splice(i, 1); drawPictures(); });
    $('pictures').append(button);
  });
  $('pictures').hidden = !pictures.length;
}
function takePictures(files) {
  const list = [...files].filter((file) => file.type.startsWith('image/'));
  for (const file of list) {
    const reader = new FileReader();
    reader.addEventListener('load', () => { if (isPicture(reader.result)) pictures.push(reader.result); drawPictures(); });
    reader.readAsDataURL(file);
  }
  return list.length > 0;
}
function stop() {
  if (running) running.abort();
}
function clear() {
  stop();
  messages = [];
  pictures = [];
  drawPictures();
  $('state').textContent = '';
  draw();
  keep();
  $('text').focus();
}
function options() {
  const o = $('options');
  o.hidden = !o.hidden;
  $('options-open').setAttribute('aria-expanded', String(!o.hidden));
  if (!o.hidden) $('system').focus();
}

// ---- keys and buttons ----
$('ask').addEventListener('submit', (e) => { e.preventDefault(); send(); });
$('options').addEventListener('submit', (e) => e.preventDefault());
$('options').addEventListener('input', keep);
$('text').addEventListener('input', () => { grow(); keep(); });
$('text').addEventListener('keydown', (e) => {
  if (e.key === 'Enter' && !e.shiftKey && !e.isComposing) { e.preventDefault(); send(); }
});
$('stop').addEventListener('click', stop);
$('clear').addEventListener('click', clear);
$('options-open').addEventListener('click', options);
document.addEventListener('keydown', (e) => {
  if (e.key === 'Escape') stop();
  if (e.altKey && e.key.toLowerCase() === 'n') { e.preventDefault(); clear(); }
  if (e.altKey && e.key.toLowerCase() === 'o') { e.preventDefault(); options(); }
});
$('text').addEventListener('paste', (e) => { if (takePictures(e.clipboardData.files)) e.preventDefault(); });
document.addEventListener('dragover', (e) => { if ([...e.dataTransfer.types].includes('Files')) e.preventDefault(); });
document.addEventListener('drop', (e) => { if (e.dataTransfer.files.length) { e.preventDefault(); takePictures(e.dataTransfer.files); } });
addEventListener('beforeunload', keep);

restore();
keep(); // without what earlier versions kept
draw();
grow();
fetch('v1/models', { headers: headers() }).then((r) => r.json()).then((all) => {
  const m = all.data[0];
  $('model').textContent = m.id;
  document.title = m.id + ' - Doppler';
  if (!m.meta.chat) $('state').textContent = 'this model has no chat template';
}).catch(() => { $('state').textContent = 'a key is needed: see Options'; });
