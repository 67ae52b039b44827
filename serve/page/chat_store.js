// Conversations in the browser's local storage: an index, and a key for each conversation. If storage is full, disabled or damaged,
// only the affected data is lost. Without storage, conversations are kept until the page is closed.
const kept = 'doppler-chat';
const isPicture = (uri) => typeof uri === 'string' && uri.startsWith('data:image/');

const store = {
  index: { current: null, list: [], options: {}, drafts: {} },
  unsaved: new Map(), // conversations that could not be written to storage
  full: false,

  read(key) {
    try { return JSON.parse(localStorage.getItem(key)); } catch (e) { return null; }
  },
  write(key, value) {
    try { localStorage.setItem(key, JSON.stringify(value)); return true; } catch (e) { return false; }
  },
  remove(key) {
    try { localStorage.removeItem(key); } catch (e) { /* off */ }
  },

  open() {
    const all = this.read(kept);
    const list = all && Array.isArray(all.list) ? all.list : [];
    this.index.list = list.filter((c) => c && typeof c.id === 'string').map((c) => ({ id: c.id, title: String(c.title || ''), at: Number(c.at) || 0 }));
    this.index.options = (all && typeof all.options === 'object' && all.options) || {};
    this.index.drafts = (all && typeof all.drafts === 'object' && all.drafts) || {};
    this.index.current = all && typeof all.current === 'string' ? all.current : null;
    if (all && Array.isArray(all.messages)) { // earlier versions stored one conversation
      this.index.current = this.add(all.messages);
      this.index.drafts = { [this.index.current]: String(all.draft || '') };
      this.save();
    }
  },
  save() {
    const there = this.read(kept); // another tab may have added conversations
    for (const c of (there && Array.isArray(there.list) && there.list) || []) {
      if (c && typeof c.id === 'string' && !this.index.list.some((x) => x.id === c.id) && !this.gone.has(c.id)) this.index.list.push(c);
    }
    this.write(kept, this.index);
  },
  // Reads the list that another tab has written, but keeps the conversation shown in this tab.
  refresh(current) {
    const there = this.read(kept), list = (there && Array.isArray(there.list) && there.list) || [];
    this.index.list = [...list.filter((c) => c && typeof c.id === 'string' && !this.gone.has(c.id)),
      ...this.index.list.filter((c) => (c.id === current || this.unsaved.has(c.id)) && !list.some((x) => x && x.id === c.id))];
  },
  gone: new Set(), // ids of conversations deleted in this tab

  // Returns the valid messages of a conversation; anything else in storage is ignored.
  messages(id) {
    const all = this.unsaved.get(id) || this.read(kept + '-' + id);
    const good = Array.isArray(all) ? all.filter((m) => m && (m.role === 'user' || m.role === 'assistant') && typeof m.content === 'string') : [];
    for (const m of good) if (!Array.isArray(m.images) || !m.images.every(isPicture)) delete m.images;
    return good;
  },
  add(messages) {
    const id = Date.now().toString(36) + Math.random().toString(36).slice(2, 8);
    this.keep(id, messages);
    return id;
  },
  keep(id, messages) {
    if (!messages.length) return;
    const first = messages.find((m) => m.role === 'user');
    let entry = this.index.list.find((c) => c.id === id);
    if (!entry) this.index.list.push(entry = { id });
    entry.title = ((first && first.content) || 'Picture').replace(/\s+/g, ' ').trim().slice(0, 80);
    entry.at = Date.now();
    const key = kept + '-' + id;
    const whole = this.write(key, messages);
    this.full = !whole && !this.write(key, messages.map((m) => ({ ...m, images: undefined }))); // retries without images
    if (whole) this.unsaved.delete(id);
    else this.unsaved.set(id, messages);
    this.save();
  },
  drop(id) {
    this.gone.add(id);
    this.index.list = this.index.list.filter((c) => c.id !== id);
    delete this.index.drafts[id];
    this.unsaved.delete(id);
    this.remove(kept + '-' + id);
    this.save();
  },
};
