// The dashboard's one script: the theme, the keyboard, what is live, the charts.
// Everything else works without it. Text goes into the page as text only.
'use strict';

const root = document.documentElement;
const stored = name => { try { return localStorage.getItem('spool.' + name); } catch { return null; } };
const store = (name, value) => { try { localStorage.setItem('spool.' + name, value); } catch { /* private windows */ } };

if (stored('theme') === 'dark' || stored('theme') === 'light') root.dataset.theme = stored('theme');

document.addEventListener('DOMContentLoaded', () => {
  document.querySelector('.tools').hidden = false;
  theme();
  tables();
  keyboard();
  ticks();
  live();
  goOn();
  charts();
});

function theme() {
  const dark = () => root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  const button = document.getElementById('theme');
  const show = () => { button.textContent = dark() ? 'Light' : 'Dark'; };
  button.addEventListener('click', () => {
    root.dataset.theme = dark() ? 'light' : 'dark';
    store('theme', root.dataset.theme);
    show();
  });
  show();
}

// tables says what the parts of tables are, which a browser forgets when they are
// shown as cards.
function tables() {
  const roles = { table: 'table', 'thead, tbody, tfoot': 'rowgroup', tr: 'row', td: 'cell', 'thead th': 'columnheader', 'tbody th, tfoot th': 'rowheader' };
  for (const [part, role] of Object.entries(roles)) for (const e of document.querySelectorAll(part)) e.setAttribute('role', role);
}

// say tells a screen reader.
function say(text) { document.getElementById('said').textContent = text; }

function keyboard() {
  const help = document.getElementById('help');
  document.getElementById('keys').addEventListener('click', () => help.showModal());
  const places = { o: '', q: 'queues', d: 'dead', s: 'schedules', w: 'workers', l: 'limits' };
  let going = 0;
  document.addEventListener('keydown', e => {
    if (e.ctrlKey || e.metaKey || e.altKey || help.open) return;
    const field = e.target.closest('input:not([type=checkbox]):not([type=radio]), textarea, select');
    if (field) {
      if (e.key === 'Escape') field.blur();
      return;
    }
    if (Date.now() - going < 3000 && e.key in places) {
      going = 0;
      location.assign(document.body.dataset.root + places[e.key]);
      return;
    }
    going = 0;
    switch (e.key) {
      case '/': document.getElementById('find').focus(); break;
      case '?': help.showModal(); break;
      case 'g': going = Date.now(); break;
      case 'j': move(1); break;
      case 'k': move(-1); break;
      case 'x': tickRow(); break;
      case 'n': document.getElementById('next')?.click(); break;
      case 'Enter':
        if (e.target !== document.body && e.target.id !== 'main') return;
        document.querySelector('tr.at .open')?.click();
        break;
      default: return;
    }
    e.preventDefault();
  });
}

const rows = () => [...document.querySelectorAll('tbody tr')].filter(r => r.querySelector('.open'));

function move(by) {
  const all = rows();
  if (!all.length) return;
  const at = all.findIndex(r => r.classList.contains('at'));
  const next = at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + by));
  all[at]?.classList.remove('at');
  all[next].classList.add('at');
  all[next].scrollIntoView({ block: 'nearest' });
  say(all[next].innerText);
}

function tickRow() {
  const box = document.querySelector('tr.at .pick input');
  if (box) { box.checked = !box.checked; ticked(); }
}

const boxes = () => [...document.querySelectorAll('.pick input')];

function ticks() {
  document.addEventListener('change', e => {
    if (e.target.id === 'all-rows') for (const b of boxes()) b.checked = e.target.checked;
    ticked();
  });
}

function ticked() {
  const label = document.getElementById('ticked');
  if (!label) return;
  const all = boxes(), n = all.filter(b => b.checked).length;
  label.textContent = n ? n + ' ticked' : 'this page';
  document.getElementById('all-rows').checked = n > 0 && n === all.length;
}

// busy says that a person is in the middle of something: then nothing is replaced.
function busy(part) {
  const active = document.activeElement;
  return part.contains(active) && active !== document.body && active.matches('a, button, input, summary, pre') ||
    part.querySelector('.pick input:checked') || part.querySelector('input[value=all]:checked') || part.querySelector('details[open]') ||
    !getSelection().isCollapsed && part.contains(getSelection().anchorNode);
}

// live fetches the page again and puts in place what is fresh in it.
function live() {
  const address = location.pathname + location.search.replace(/[?&](did|n)=[^&]*/g, '').replace(/^&/, '?');
  if (document.querySelector('.flash')) history.replaceState(null, '', address);
  const button = document.getElementById('live');
  if (!button) return;
  let on = stored('live') !== 'off';
  const show = () => button.setAttribute('aria-pressed', on);
  button.addEventListener('click', () => { on = !on; store('live', on ? 'on' : 'off'); show(); });
  show();
  const again = async () => {
    if (on && !document.hidden) {
      try {
        const answer = await fetch(address, { headers: { Accept: 'text/html' }, redirect: 'error' });
        if (answer.ok) replace(new DOMParser().parseFromString(await answer.text(), 'text/html'));
      } catch { /* the next time */ }
    }
    setTimeout(again, 3000);
  };
  setTimeout(again, 3000);
}

function replace(fresh) {
  const at = rows().findIndex(r => r.classList.contains('at'));
  for (const part of document.querySelectorAll('[data-fresh]')) {
    const now = fresh.getElementById(part.id);
    const text = now?.innerHTML;
    if (!now || text === part.was || busy(part)) continue;
    part.replaceWith(document.adoptNode(now));
    now.was = text; // as it came: the page changes it a little
  }
  tables();
  if (at >= 0 && !document.querySelector('tr.at')) rows()[at]?.classList.add('at');
}

// goOn presses what goes on with something long, until it is over or the page is left.
function goOn() {
  const next = document.querySelector('[data-go-on]');
  if (!next) return;
  let stop = false;
  document.addEventListener('click', e => { if (e.target.closest('a, button, summary')) stop = true; }, { capture: true });
  setTimeout(() => {
    if (stop) return;
    if (next.tagName === 'FORM') next.submit(); else location.replace(next.href);
  }, 250);
}

/* Charts */

const shown = {
  depth: [['scheduled', 'scheduled'], ['ready', 'ready'], ['leased', 'leased'], ['dead', 'dead']],
  rate: [['enqueued', 'enqueued'], ['acked', 'acked'], ['failed', 'failed']],
  wait: [['wait', 'oldest']],
  run: [['run', 'mean'], ['longest', 'longest now']],
};
const unit = { depth: number, rate: perSecond, wait: seconds, run: seconds };

function number(n) {
  if (n >= 1e7) return (n / 1e6).toFixed(0) + 'M';
  if (n >= 1e6) return (n / 1e6).toFixed(1) + 'M';
  if (n >= 1e5) return (n / 1e3).toFixed(0) + 'k';
  return Math.round(n).toLocaleString('en');
}
function perSecond(n) { return (n >= 10 || n === 0 ? number(n) : n.toFixed(n < 1 ? 2 : 1)) + '/s'; }
function seconds(n) {
  if (n === 0) return '0s';
  if (n < 1) return Math.max(1, Math.round(n * 1000)) + 'ms';
  if (n < 10) return n.toFixed(1) + 's';
  if (n < 60) return Math.round(n) + 's';
  if (n < 3600) return Math.floor(n / 60) + 'm ' + Math.floor(n % 60) + 's';
  if (n < 86400) return Math.floor(n / 3600) + 'h ' + Math.floor(n % 3600 / 60) + 'm';
  return Math.floor(n / 86400) + 'd ' + Math.floor(n % 86400 / 3600) + 'h';
}

function charts() {
  const box = document.getElementById('charts');
  if (!box) return;
  box.hidden = false;
  let span = 'recent', data = null, spoken = 0;
  const figures = [...box.querySelectorAll('figure')].map(f => new Figure(f));
  const draw = () => { for (const f of figures) f.draw(data, span); };
  const load = async () => {
    const asked = span, last = data?.t.length ? data.t[data.t.length - 1] : 0;
    const answer = await fetch(document.body.dataset.root + 'series.json?window=' + asked + '&since=' + last);
    if (!answer.ok) return;
    const more = await answer.json();
    if (asked !== span) return;
    data = data ? join(data, more) : more;
    draw();
    if (Date.now() - spoken > 60000) {
      spoken = Date.now();
      say(figures.map(f => f.words).join('; '));
    }
  };
  const again = async () => {
    const on = document.getElementById('live')?.getAttribute('aria-pressed') !== 'false';
    if (!data || on && !document.hidden) try { await load(); } catch { /* the next time */ }
    setTimeout(again, 2000);
  };
  for (const b of box.querySelectorAll('[data-window]')) {
    b.addEventListener('click', () => {
      span = b.dataset.window;
      for (const o of box.querySelectorAll('[data-window]')) o.setAttribute('aria-pressed', o === b);
      data = null;
      load().catch(() => {});
    });
  }
  addEventListener('resize', draw);
  again();
}

const columns = ['t', ...Object.values(shown).flat().map(c => c[0])];

function join(old, more) {
  const keep = (more.every === 2000 ? 15 * 60 : 24 * 3600) * 1000;
  const from = more.now - keep, cut = old.t.filter(t => t < from).length;
  const all = { now: more.now, every: more.every };
  for (const c of columns) all[c] = (old[c] ?? []).slice(cut).concat(more[c] ?? []);
  return all;
}

const svgns = 'http://www.w3.org/2000/svg';
function shape(name, attributes, text) {
  const e = document.createElementNS(svgns, name);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  if (text !== undefined) e.textContent = text;
  return e;
}

// Figure is one chart: a legend with the numbers of now, or of where the pointer
// is, and lines.
class Figure {
  constructor(element) {
    this.kind = element.dataset.chart;
    this.name = element.querySelector('figcaption').textContent;
    this.legend = document.createElement('div');
    this.legend.className = 'legend';
    this.svg = shape('svg', { role: 'img' });
    element.append(this.legend, this.svg);
    this.svg.addEventListener('pointermove', e => { this.pointer = e.offsetX; this.draw(this.data, this.span); });
    this.svg.addEventListener('pointerleave', () => { this.pointer = undefined; this.draw(this.data, this.span); });
    this.words = '';
  }

  draw(data, span) {
    if (!data) return;
    this.data = data;
    this.span = span;
    const wide = this.svg.clientWidth || 260, high = 130, base = high - 16, top = 8;
    const length = (span === 'day' ? 24 * 3600 : 15 * 60) * 1000;
    const lines = shown[this.kind], to = unit[this.kind];
    let most = 0;
    for (const [key] of lines) for (const v of data[key] ?? []) if (v > most) most = v;
    most = to === seconds ? roundTime(most) : round(most);
    const x = t => wide - (data.now - t) / length * wide;
    const y = v => base - v / most * (base - top);
    const parts = [];
    for (const share of [0, .5, 1]) {
      const at = Math.round(y(most * share)) + .5;
      parts.push(shape('line', { class: 'grid', x1: 0, x2: wide, y1: at, y2: at }));
    }
    for (const [key] of lines) parts.push(shape('path', { class: 'plot c-' + key, d: path(data, key, x, y) }));
    parts.push(shape('text', { x: 0, y: y(most) - 2 }, to(most)));
    parts.push(shape('text', { x: 0, y: high - 3 }, span === 'day' ? '24 h ago' : '15 min ago'));
    parts.push(shape('text', { x: wide, y: high - 3, 'text-anchor': 'end' }, 'now'));
    let at = data.t.length - 1;
    if (this.pointer !== undefined && at >= 0) {
      at = data.t.reduce((best, t, i) => Math.abs(x(t) - this.pointer) < Math.abs(x(data.t[best]) - this.pointer) ? i : best, 0);
      parts.push(shape('line', { class: 'cross', x1: x(data.t[at]), x2: x(data.t[at]), y1: top, y2: base }));
      parts.push(shape('text', { x: Math.min(x(data.t[at]) + 4, wide - 60), y: top + 8 }, seconds((data.now - data.t[at]) / 1000) + ' ago'));
    } else if (at >= 0) {
      for (const [key] of lines) {
        const v = data[key]?.[at];
        if (v !== null && v !== undefined) parts.push(shape('circle', { class: 'point c-' + key, cx: x(data.t[at]), cy: y(v), r: 2.2 }));
      }
    }
    this.svg.setAttribute('viewBox', `0 0 ${wide} ${high}`);
    this.svg.replaceChildren(...parts);
    this.tell(lines, to, data, at);
  }

  tell(lines, to, data, at) {
    const items = lines.map(([key, name]) => {
      const v = data[key]?.[at], item = document.createElement('span'), key_ = document.createElement('span'), b = document.createElement('b');
      key_.className = 'key c-' + key;
      b.textContent = v === null || v === undefined ? '–' : to(v);
      item.append(key_, name + ' ', b);
      return item;
    });
    this.legend.replaceChildren(...items);
    this.words = this.name + ': ' + items.map(i => i.textContent).join(', ');
    this.svg.setAttribute('aria-label', this.words);
  }
}

// round is the next number of a scale at or above v.
function round(v) {
  if (!(v > 0)) return 1;
  const ten = 10 ** Math.floor(Math.log10(v));
  for (const m of [1, 1.5, 2, 3, 4, 5, 6, 8, 10]) if (v <= m * ten) return m * ten;
  return v;
}

// roundTime is the same of seconds.
function roundTime(v) {
  const minute = 60, hour = 3600, day = 86400;
  for (const m of [10, 15, 20, 30, 45]) if (v > 10 && v <= m) return m;
  for (const m of [1, 2, 5, 10, 15, 20, 30, 45]) if (v > 45 && v <= m * minute) return m * minute;
  for (const m of [1, 2, 3, 6, 12, 18]) if (v > 45 * minute && v <= m * hour) return m * hour;
  return v > 18 * hour ? round(v / day) * day : round(v);
}

// path draws a series with gaps where there is no number, or no sample.
function path(data, key, x, y) {
  let d = '', pen = false, last = 0;
  (data[key] ?? []).forEach((v, i) => {
    const t = data.t[i];
    if (v === null || t - last > 4 * data.every) pen = false;
    last = t;
    if (v === null) return;
    d += (pen ? 'L' : 'M') + x(t).toFixed(1) + ' ' + y(v).toFixed(1);
    pen = true;
  });
  return d;
}
