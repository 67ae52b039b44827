'use strict';
const $ = (id) => document.getElementById(id);
const numbers = ['temperature', 'top_p', 'top_k', 'min_p', 'repeat_penalty', 'seed'];
const fields = ['system', 'tokens', ...numbers];
let current = null; // id of the conversation on the screen
let messages = [];
let running = null; // AbortController of the answer in progress
let pictures = []; // data: URIs for the next message
let model = null; // name of the chosen model; null: the server has only one

// ---- state that survives a reload ----
function keepOptions() {
  for (const f of fields) store.index.options[f] = $(f).value;
  store.index.options.model = model;
  store.index.current = current;
  store.index.drafts = { [current]: $('text').value };
  store.save();
  keepKey();
}
function keep() {
  if (current === null) current = store.add(messages);
  else store.keep(current, messages);
  keepOptions();
  drawList();
  if (store.full) $('state').textContent = 'this browser keeps no more: delete old conversations';
}
// The API key is forgotten with the tab unless the user keeps it: every page of this origin could read a kept key.
function keepKey() {
  try {
    const [here, there] = $('keep-key').checked ? [localStorage, sessionStorage] : [sessionStorage, localStorage];
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
  restoreKey();
  store.open();
  current = store.index.list.some((c) => c.id === store.index.current) ? store.index.current : null;
  messages = current === null ? [] : store.messages(current);
  for (const f of fields) $(f).value = store.index.options[f] || '';
  model = store.index.options.model || null;
  $('text').value = store.index.drafts[current] || '';
}

// ---- rendering ----
async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch (e) { // without TLS, there is no clipboard API
    const area = document.createElement('textarea');
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
    button.focus();
  }
  const label = button.textContent;
  button.textContent = 'Copied';
  setTimeout(() => { button.textContent = label; }, 1200);
}
function tool(label, title, act) {
  const button = document.createElement('button');
  button.type = 'button';
  button.textContent = label;
  button.title = title;
  button.addEventListener('click', () => act(button));
  return button;
}
function decorate(pre, node) { // adds the language and a copy button to a code block
  const box = document.createElement('div'), bar = document.createElement('div'), name = document.createElement('span');
  box.className = 'code';
  name.textContent = node.language;
  pre.tabIndex = 0; // makes it scrollable by keyboard
  bar.append(name, tool('Copy', 'Copy this code', (button) => copy(node.text, button)));
  box.append(bar, pre);
  return box;
}
function block(node) {
  const element = build(node, document, decorate);
  if (node.tag !== 'table') return element;
  const box = document.createElement('div');
  box.className = 'table';
  box.append(element);
  return box;
}
// Renders Markdown into an element. Unchanged blocks are kept, so that a selection in them is kept, too.
function fill(element, text) {
  const nodes = markdown(text), keys = nodes.map((n) => JSON.stringify(n)), before = element.keys || [];
  let same = 0;
  while (same < keys.length && keys[same] === before[same]) same++;
  while (element.children.length > same) element.lastChild.remove();
  for (const n of nodes.slice(same)) element.append(block(n));
  element.keys = keys;
}
function thumbnail(uri) {
  const img = document.createElement('img');
  img.src = uri;
  img.alt = 'picture';
  return img;
}
// Updates the changed parts of a message.
function redraw(drawn) {
  const { message, body, thoughts, note, offer } = drawn;
  if (message.role === 'assistant') fill(body, message.content);
  thoughts.hidden = !message.reasoning;
  thoughts.lastChild.textContent = message.reasoning || '';
  note.textContent = [message.note, message.left && 'forgotten: the model does not see it any more'].filter(Boolean).join('; ');
  note.classList.toggle('wrong', !!message.wrong);
  drawn.box.classList.toggle('left', !!message.left);
  offer.textContent = '';
  offer.hidden = !message.full || message !== messages[messages.length - 1];
  if (!offer.hidden) {
    offer.append(tool('Forget the oldest', 'Go on without the oldest messages', forgetOldest),
      tool('New conversation', 'Go on in a new conversation with the last message', goOnAnew));
  }
}
function add(message) {
  const box = document.createElement('div'), body = document.createElement('div'), note = document.createElement('div');
  const tools = document.createElement('div'), offer = document.createElement('div');
  const thoughts = document.createElement('details'), summary = document.createElement('summary');
  const drawn = { message, box, body, note, offer, thoughts };
  box.className = message.role;
  body.className = 'message';
  note.className = 'note';
  tools.className = 'tools';
  offer.className = 'offer';
  summary.textContent = 'Thoughts';
  thoughts.append(summary, document.createElement('div'));
  thoughts.className = 'thoughts';
  if (message.role === 'user') {
    body.textContent = message.content;
    [...(message.images || [])].reverse().forEach((uri) => body.prepend(thumbnail(uri)));
  }
  tools.append(tool('Copy', 'Copy this message', (button) => copy(message.content, button)));
  if (message.role === 'user') tools.append(tool('Edit', 'Change this message, and ask again from here', () => edit(drawn)));
  else tools.append(tool('Again', 'Have it answered again', () => again(message)));
  box.append(thoughts, body, note, offer, tools);
  redraw(drawn);
  $('messages').append(box);
  return drawn;
}
function draw() {
  $('messages').textContent = '';
  messages.forEach(add);
  if (!messages.length) {
    const empty = document.createElement('p');
    empty.id = 'empty';
    empty.textContent = 'Say something below. Enter sends, Shift+Enter begins a line.';
    $('messages').append(empty);
  }
  toEnd(true);
}
function drawList() {
  const focused = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.id : undefined;
  $('list').textContent = '';
  for (const c of [...store.index.list].sort((a, b) => b.at - a.at)) {
    const row = document.createElement('div');
    const open = tool(c.title || 'Conversation', c.title, () => show(c.id));
    open.dataset.id = c.id;
    if (c.id === current) {
      row.className = 'current';
      open.setAttribute('aria-current', 'true');
    }
    const drop = tool('\u00d7', 'Delete this conversation', (button) => {
      if (button.textContent === 'Sure?') return forget(c.id);
      button.textContent = 'Sure?';
      setTimeout(() => { button.textContent = '\u00d7'; }, 3000);
    });
    drop.setAttribute('aria-label', 'Delete ' + c.title);
    row.append(open, drop);
    $('list').append(row);
    if (c.id === focused) open.focus();
  }
  if (!$('list').firstChild) $('list').textContent = 'No conversations yet';
}
function toEnd(always) {
  const m = $('messages');
  if (always || m.scrollHeight - m.scrollTop - m.clientHeight < 120) m.scrollTop = m.scrollHeight;
}
function grow(area = $('text')) {
  area.style.height = 'auto';
  area.style.height = area.scrollHeight + 2 + 'px';
}
function busy(is) {
  $('send').hidden = is;
  $('stop').hidden = !is;
}

// ---- requests ----
function headers() {
  const h = { 'Content-Type': 'application/json' };
  if ($('key').value) h.Authorization = 'Bearer ' + $('key').value;
  return h;
}
function request() {
  const parts = (m) => [...m.images.map((url) => ({ type: 'image_url', image_url: { url } })), { type: 'text', text: m.content }];
  const sent = messages.filter((m) => !m.left && (!m.wrong || m.content))
    .map((m) => ({ role: m.role, content: m.images && m.images.length ? parts(m) : m.content }));
  if ($('system').value.trim()) sent.unshift({ role: 'system', content: $('system').value });
  const r = { messages: sent, stream: true, stream_options: { include_usage: true } };
  for (const f of numbers) if ($(f).value !== '') r[f] = Number($(f).value);
  if (model) r.model = model;
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
      if (!p.startsWith('data: ')) continue; // a keep-alive comment
      const data = p.slice(6);
      if (data === '[DONE]') return;
      yield JSON.parse(data);
    }
  }
}
async function ask(message, drawn) { // streams an answer into a message
  const begin = performance.now();
  let first = 0, n = 0, reason = null, due = false;
  const paint = () => { due = false; redraw(drawn); toEnd(false); };
  try {
    const response = await fetch('v1/chat/completions',
      { method: 'POST', headers: headers(), body: JSON.stringify(request()), signal: running.signal });
    if (!response.ok) {
      const error = await response.json().catch(() => null);
      const failure = new Error((error && error.error && error.error.message) || 'the server answered ' + response.status);
      failure.code = error && error.error && error.error.code;
      throw failure;
    }
    for await (const e of events(response)) {
      if (e.error) throw new Error(e.error.message);
      if (e.usage) n = e.usage.completion_tokens;
      const choice = e.choices && e.choices[0];
      if (!choice) continue;
      if (choice.finish_reason) reason = choice.finish_reason;
      const piece = choice.delta.content, thought = choice.delta.reasoning_content;
      if (!piece && !thought) continue;
      if (!first) first = performance.now();
      else n++;
      message.content += piece || '';
      if (thought) message.reasoning = (message.reasoning || '') + thought;
      if (!due) requestAnimationFrame(paint);
      due = true;
      const s = (performance.now() - first) / 1000;
      $('state').textContent = s > 0.2 ? (n / s).toFixed(1) + ' tokens/s' : 'writing';
    }
    const asked = $('tokens').value !== '' && n >= Number($('tokens').value);
    message.full = reason === 'length' && !asked;
    message.note = asked && reason === 'length' ? 'cut: the length that was asked for is reached' : message.full ? 'cut: the context is full' : '';
  } catch (error) {
    const stopped = error.name === 'AbortError';
    message.wrong = !stopped;
    message.full = error.code === 'context_length_exceeded';
    message.note = stopped ? 'stopped' : error.message;
  }
  const took = (performance.now() - (first || begin)) / 1000;
  const speed = first && n > 1 ? `${n} tokens, ${(n / took).toFixed(1)} tokens/s, first after ${Math.round(first - begin)} ms` : '';
  $('state').textContent = message.wrong ? 'failed' : speed || 'ready';
  message.note = [message.note, speed].filter(Boolean).join('; ');
}
async function answer() {
  const message = { role: 'assistant', content: '' };
  const asked = current, list = messages; // the user may switch conversations before the answer ends
  list.push(message);
  const drawn = add(message);
  const mine = running = new AbortController();
  busy(true);
  $('state').textContent = 'waiting';
  toEnd(true);
  await ask(message, drawn);
  if (running !== mine) { // the user left the conversation: keep the partial answer
    store.keep(asked, list);
    drawList();
    return message;
  }
  running = null;
  busy(false);
  keep();
  redraw(drawn);
  toEnd(false);
  if (document.activeElement === document.body) $('text').focus();
  return message;
}
function send() {
  const text = $('text').value.trim();
  if ((!text && !pictures.length) || running) return;
  const message = { role: 'user', content: text };
  if (pictures.length) message.images = pictures;
  pictures = [];
  drawPictures();
  messages.push(message);
  $('text').value = '';
  grow();
  keep();
  draw();
  answer();
  $('text').focus();
}
// Truncates the conversation at a message, to answer it again. If more than the last answer is lost, keeps a copy.
function from(at) {
  stop();
  if (messages.slice(at).filter((m) => m.role === 'user').length > 1 || (messages[at] && messages[at].role === 'assistant' && at < messages.length - 1)) store.add(messages);
  messages = messages.slice(0, at);
}
function again(message) {
  if (running) return;
  from(messages.indexOf(message));
  draw();
  answer();
}
function edit(drawn) {
  const { message, body, box } = drawn;
  if (running || box.querySelector('textarea')) return;
  const area = document.createElement('textarea'), bar = document.createElement('div');
  const leave = () => { area.remove(); bar.remove(); body.hidden = false; $('text').focus(); };
  const done = () => {
    if (running || (!area.value.trim() && !message.images)) return;
    const at = messages.indexOf(message);
    from(at);
    messages.push({ role: 'user', content: area.value.trim(), ...(message.images && { images: message.images }) });
    draw();
    answer();
    $('text').focus();
  };
  area.value = message.content;
  area.setAttribute('aria-label', 'Changed message');
  area.addEventListener('input', () => grow(area));
  area.addEventListener('keydown', (e) => {
    if (e.key === 'Escape') { e.stopPropagation(); leave(); }
    if (e.key === 'Enter' && !e.shiftKey && !e.isComposing) { e.preventDefault(); done(); }
  });
  bar.className = 'offer';
  bar.append(tool('Ask again', 'Ask with the changed message (Enter)', done), tool('Leave', 'Leave it as it was (Escape)', leave));
  body.hidden = true;
  body.after(area, bar);
  grow(area);
  area.focus();
}

// ---- a full context ----
// Omits the oldest messages with their answers from the request until the rest fits. They stay visible.
async function forgetOldest() {
  if (running) return;
  for (;;) {
    const last = messages[messages.length - 1];
    const lines = messages.filter((m) => m.role === 'user' && !m.left);
    if (lines.length < 2) {
      $('state').textContent = 'the last message alone is too long';
      return;
    }
    if (last.role === 'assistant') messages.pop(); // an error, or a truncated answer
    const end = messages.indexOf(lines[1]);
    for (let i = 0; i < end; i++) messages[i].left = true;
    draw();
    const message = await answer();
    if (!message.full || !message.wrong) return;
  }
}
function goOnAnew() {
  const lines = messages.filter((m) => m.role === 'user');
  const message = { ...lines[lines.length - 1], left: undefined };
  startNew();
  messages = [message];
  keep();
  draw();
  answer();
}

// ---- pictures ----
// Images that were dropped or pasted are shown above the text. A click removes one.
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

// ---- conversations ----
function stop() {
  if (running) running.abort();
}
function leaveRunning() { // stops the answer in progress, which is kept in its conversation
  stop();
  running = null;
  busy(false);
}
function startNew() {
  leaveRunning();
  current = null;
  messages = [];
  pictures = [];
  drawPictures();
  $('state').textContent = '';
  keepOptions();
  draw();
  drawList();
  $('text').focus();
}
function show(id) {
  leaveRunning();
  current = id;
  messages = store.messages(id);
  $('state').textContent = '';
  keepOptions();
  draw();
  drawList();
  if (narrow.matches) list();
  $('text').focus();
}
function forget(id) {
  if (id === current) startNew();
  store.drop(id);
  drawList();
}
const narrow = matchMedia('(max-width: 45rem)');
function toggle(id, focus) {
  const o = $(id);
  o.hidden = !o.hidden;
  $(id + '-open').setAttribute('aria-expanded', String(!o.hidden));
  if (!o.hidden && focus) focus.focus();
  return !o.hidden;
}
function options() {
  toggle('options', $('system'));
}
function list() {
  drawList();
  if (toggle('list')) ($('list').querySelector('[aria-current]') || $('list').querySelector('button') || $('list-open')).focus();
}

// ---- keys and buttons ----
$('ask').addEventListener('submit', (e) => { e.preventDefault(); send(); });
$('options').addEventListener('submit', (e) => e.preventDefault());
$('options').addEventListener('input', keepOptions);
$('defaults').addEventListener('click', () => { for (const f of fields) if (f !== 'system') $(f).value = ''; keepOptions(); });
$('text').addEventListener('input', () => { grow(); keepOptions(); });
$('text').addEventListener('keydown', (e) => {
  if (e.key === 'Enter' && !e.shiftKey && !e.isComposing) { e.preventDefault(); send(); }
  if (e.key === 'ArrowUp' && !$('text').value && messages.length && !running) { // edit the last message
    const own = document.querySelectorAll('.user .tools button:last-child');
    e.preventDefault();
    own[own.length - 1].click();
  }
});
$('stop').addEventListener('click', stop);
$('clear').addEventListener('click', startNew);
$('options-open').addEventListener('click', options);
$('list-open').addEventListener('click', list);
document.addEventListener('keydown', (e) => {
  if (e.key === 'Escape') {
    if (running) stop();
    else if (drawing) drawing.abort();
    else if (!$('list').hidden && narrow.matches) { list(); $('text').focus(); }
    else if (!$('options').hidden) { options(); $('text').focus(); }
  }
  const act = e.altKey && { n: startNew, o: options, l: list, t: toTalk, d: toDraw }[e.key.toLowerCase()];
  if (act) { e.preventDefault(); act(); }
});
$('text').addEventListener('paste', (e) => { if (takePictures(e.clipboardData.files)) e.preventDefault(); });
document.addEventListener('dragover', (e) => { if ([...e.dataTransfer.types].includes('Files')) e.preventDefault(); });
document.addEventListener('drop', (e) => { if ($('draw').hidden && e.dataTransfer.files.length) { e.preventDefault(); takePictures(e.dataTransfer.files); } });
addEventListener('beforeunload', () => { if (running) keep(); else keepOptions(); });
addEventListener('storage', (e) => { if (e.key === kept) { store.refresh(current); drawList(); } }); // another tab has changed the list

restore();
keepOptions(); // drops data of earlier versions
draw();
drawList();
grow();
fetch('v1/models', { headers: headers() }).then((r) => r.json()).then((all) => {
  const chosen = all.data.find((m) => m.id === model) || all.data[0];
  const name = (m) => {
    $('model').textContent = m.id;
    document.title = m.id + ' - Doppler';
    if (m.meta && m.meta.draws) return drawWith(m.meta.draws);
    drawWith(null);
    if (m.meta && m.meta.chat === false) $('state').textContent = 'this model has no chat template';
  };
  model = all.data.length > 1 ? chosen.id : null;
  $('views').hidden = all.data.length < 2;
  name(chosen);
  if (all.data.length < 2) return;
  for (const m of all.data) $('models').append(new Option(m.id, m.id, false, m === chosen));
  $('models').hidden = false;
  $('model').hidden = true;
  $('models').addEventListener('change', () => { model = $('models').value; name(all.data.find((m) => m.id === model)); keepOptions(); });
}).catch(() => { $('state').textContent = 'a key is needed: see Options'; });
