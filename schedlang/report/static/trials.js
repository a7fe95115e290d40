// The table of all trials: sorted, filtered, in pages.
const seconds = new Intl.NumberFormat('en', { minimumFractionDigits: 3, maximumFractionDigits: 3 });
const COLUMNS = [
  { field: 'trial', title: 'Trial', format: plainNumber },
  { field: 'latency', title: `Search (${page.unit})`, format: shortNumber },
  { field: 'finals', title: `Finals (${page.unit})`, format: shortNumber, inside: true },
  { field: 'ratio', title: 'To best', format: new Intl.NumberFormat('en', { minimumFractionDigits: 2, maximumFractionDigits: 2 }), unit: '\u00d7' },
  { field: 'status', title: 'Status', text: true },
  { field: 'verified', title: 'Verified', flag: true },
  { field: 'disturbed', title: 'Disturbed', format: new Intl.NumberFormat('en', { style: 'percent' }) },
  { field: 'seconds', title: 'Wall (s)', format: new Intl.NumberFormat('en', { minimumFractionDigits: 2, maximumFractionDigits: 2 }) },
  { field: 'worker', title: 'Worker', format: plainNumber },
  { field: 'build', title: 'Build (s)', format: seconds },
  { field: 'run', title: 'Run (s)', format: seconds },
  { field: 'verify', title: 'Verify (s)', format: seconds },
  { field: 'record', title: 'Record', format: plainNumber },
];

function decisionsOf(place) {
  return page.decisions.sites.filter((site) => site.at[place] >= 0)
    .map((site) => [site.name, site.of[site.at[place]], site.module]);
}

function trialRows() {
  const rows = rowsOf('trials');
  const best = rows.reduce((low, row) => (row.latency !== null && row.latency < low ? row.latency : low), Infinity);
  return rows.map((row, place) => ({ ...row, place, ratio: row.latency === null ? null : row.latency / best }));
}

function searchable(row) {
  if (row.haystack === undefined) {
    const decided = decisionsOf(row.place).map(([site, value]) => `${site}=${value}`);
    const fields = [`trial ${row.trial}`, `record ${row.record}`, row.status, row.search, row.message];
    row.haystack = [...fields, ...decided].join('\n').toLowerCase();
  }
  return row.haystack;
}

function cell(row, column) {
  const value = row[column.field];
  if (column.flag) return value ? 'yes' : 'no';
  if (value === null || value === undefined) return '\u2013';
  const doubt = column.field === 'latency' && row.uncertain ? ' ?' : '';
  return column.text ? String(value) : column.format.format(value) + (column.unit ?? '') + doubt;
}

function compare(one, other, column) {
  const [a, b] = [one[column.field], other[column.field]];
  if (a === null || b === null) return (a === null) - (b === null); // unknown ones last
  return column.text ? String(a).localeCompare(String(b)) : a - b;
}

function startTrials() {
  const holder = document.getElementById('trial-table');
  if (!holder) return;
  const all = trialRows();
  const columns = COLUMNS.filter(({ field, inside }) => !inside && all.some((row) => row[field] !== null));
  const state = { by: columns[0], down: false, page: 0, size: 25, text: '', status: '', open: new Set() };
  const body = element('tbody');
  const counter = document.getElementById('trial-count');
  const heads = columns.map((column) => {
    const button = element('button', { type: 'button', onclick: () => sortBy(column) }, column.title,
      element('span', { class: 'arrow', 'aria-hidden': 'true' }));
    return element('th', { scope: 'col', class: column.format ? 'number' : null }, button);
  });
  let shown = [];

  function sortBy(column) {
    state.down = state.by === column ? !state.down : false;
    state.by = column;
    state.page = 0;
    update();
  }

  function update() {
    const words = state.text.toLowerCase().split(/\s+/).filter(Boolean);
    shown = all.filter((row) => (!state.status || row.status === state.status)
      && words.every((word) => searchable(row).includes(word)));
    const unknown = (row) => row[state.by.field] === null;
    shown.sort((a, b) => {
      const order = compare(a, b, state.by) || a.place - b.place;
      return state.down && !unknown(a) && !unknown(b) ? -order : order;
    });
    render();
  }

  function render() {
    const pages = Math.max(Math.ceil(shown.length / state.size), 1);
    state.page = Math.min(Math.max(state.page, 0), pages - 1);
    const first = state.page * state.size;
    const rows = shown.slice(first, first + state.size);
    body.replaceChildren(...rows.flatMap(renderRow));
    if (!rows.length) {
      body.append(element('tr', {}, element('td', { colspan: columns.length, class: 'nothing' }, 'No trial matches the filter.')));
    }
    heads.forEach((head, place) => {
      const sorted = columns[place] === state.by;
      head.setAttribute('aria-sort', sorted ? (state.down ? 'descending' : 'ascending') : 'none');
    });
    const last = Math.min(first + state.size, shown.length);
    counter.textContent = shown.length
      ? `${plainNumber.format(first + 1)}\u2013${plainNumber.format(last)} of ${plainNumber.format(shown.length)}`
      : 'none';
    for (const [id, off] of [['first', state.page === 0], ['previous', state.page === 0],
      ['next', state.page === pages - 1], ['last', state.page === pages - 1]]) {
      document.getElementById(`trial-${id}`).disabled = off;
    }
  }

  function renderRow(row) {
    const open = state.open.has(row.place);
    const id = `trial-detail-${row.place}`;
    const toggle = () => {
      if (open) state.open.delete(row.place); else state.open.add(row.place);
      render();
      body.querySelector(`[data-place="${row.place}"]`)?.focus();
    };
    const cells = columns.map((column, place) => {
      const text = cell(row, column);
      if (place > 0) return element('td', { class: column.format ? 'number' : column.text ? `status-${row.status}` : null }, text);
      return element('th', { scope: 'row', class: 'number' }, element('button', {
        type: 'button', class: 'open', 'aria-expanded': String(open), 'aria-controls': id,
        'data-place': row.place, 'aria-label': `Trial ${text}: decisions`, onclick: toggle,
      }, text));
    });
    const rows = [element('tr', { class: row.ratio === 1 ? 'best' : null }, ...cells)];
    if (open) rows.push(element('tr', { id, class: 'detail' }, element('td', { colspan: columns.length }, detail(row))));
    return rows;
  }

  function detail(row) {
    const decided = decisionsOf(row.place);
    const list = element('dl', {}, ...decided.map(([site, value, module]) => element('div', {},
      element('dt', { title: module ? `module ${module}` : null }, site), element('dd', {}, value))));
    return element('div', {},
      row.message ? element('p', { class: 'message' }, row.message) : null,
      row.finals === null ? null : element('p', {}, `In the finals: ${shortNumber.format(row.finals)} ${page.unit}.`),
      row.uncertain ? element('p', {}, `Other work disturbed its samples: it takes at least ${shortNumber.format(row.low)} ${page.unit}.`) : null,
      row.reused ? element('p', {}, 'Measured by another run.') : null,
      decided.length ? list : element('p', {}, 'No decisions are known.'));
  }

  function save() {
    const sites = page.decisions.sites.map((site) => site.name);
    const quoted = (value) => (value === null || value === undefined ? '' : `"${String(value).replace(/"/g, '""')}"`);
    // A cell that begins so would be a formula in a spreadsheet.
    const safe = (value) => (typeof value === 'string' && /^[=+\-@\t\r]/.test(value) ? `'${value}` : value);
    const fields = [...COLUMNS.map(({ field }) => field), 'message'];
    const lines = shown.map((row) => {
      const decided = new Map(decisionsOf(row.place));
      return [...fields.map((field) => row[field]), ...sites.map((site) => decided.get(site))];
    });
    const titles = [...COLUMNS.map(({ field, title }) => (['latency', 'finals'].includes(field) ? title : field)), 'message', ...sites];
    const text = [titles, ...lines].map((line) => line.map((value) => quoted(safe(value))).join(',')).join('\r\n');
    const url = URL.createObjectURL(new Blob([text], { type: 'text/csv' }));
    element('a', { href: url, download: 'trials.csv' }).click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  }

  const on = (id, event, act) => document.getElementById(id).addEventListener(event, act);
  on('trial-filter', 'input', (event) => { state.text = event.target.value; state.page = 0; update(); });
  on('trial-status', 'change', (event) => { state.status = event.target.value; state.page = 0; update(); });
  on('trial-size', 'change', (event) => { state.size = Number(event.target.value); update(); });
  on('trial-first', 'click', () => { state.page = 0; render(); });
  on('trial-previous', 'click', () => { state.page -= 1; render(); });
  on('trial-next', 'click', () => { state.page += 1; render(); });
  on('trial-last', 'click', () => { state.page = Infinity; render(); });
  on('trial-save', 'click', save);
  holder.append(element('table', { class: 'trials' },
    element('caption', { class: 'hidden-text' }, 'All trials'),
    element('thead', {}, element('tr', {}, ...heads)), body));
  update();
}
