// Draws charts into the elements that name them, in the colours and the width of the page.
const MOST_IN_SVG = 3000;
const charts = new Map(); // by element: what was drawn, and in which width

function theme() {
  const chosen = document.documentElement.dataset.theme;
  if (chosen === 'light' || chosen === 'dark') return chosen;
  return matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
}

function configuration() {
  const styles = getComputedStyle(document.documentElement);
  const color = (name) => styles.getPropertyValue(name).trim();
  const text = { labelColor: color('--ink-2'), titleColor: color('--ink-2'), titleFontWeight: 500 };
  return {
    background: 'transparent',
    font: styles.getPropertyValue('--font').trim(),
    aria: false,
    view: { stroke: null },
    axis: {
      ...text, gridColor: color('--grid'), domainColor: color('--line'), tickColor: color('--line'),
      titlePadding: 10, labelFontSize: 12, titleFontSize: 12,
    },
    legend: { ...text, labelFontSize: 12, titleFontSize: 12 },
    text: { color: color('--ink-2') },
  };
}

function namesOfData(part, found = new Set()) {
  if (Array.isArray(part)) part.forEach((one) => namesOfData(one, found));
  else if (part && typeof part === 'object') {
    if (part.data && typeof part.data.name === 'string') found.add(part.data.name);
    Object.values(part).forEach((one) => namesOfData(one, found));
  }
  return found;
}

function limitLabels(part, most) {
  if (Array.isArray(part)) part.forEach((one) => limitLabels(one, most));
  else if (part && typeof part === 'object') {
    if (typeof part.labelLimit === 'number') part.labelLimit = Math.min(part.labelLimit, most);
    Object.values(part).forEach((one) => limitLabels(one, most));
  }
}

// On a narrow screen titles take several lines, and legends have few columns.
function narrow(part, letters) {
  if (Array.isArray(part)) part.forEach((one) => narrow(one, letters));
  else if (part && typeof part === 'object') {
    if (part.x && typeof part.x.title === 'string') part.x.title = wrapped(part.x.title, letters);
    if (part.legend?.columns) part.legend.columns = 2;
    Object.values(part).forEach((one) => narrow(one, letters));
  }
}

function wrapped(text, letters) {
  const lines = [''];
  for (const word of text.split(' ')) {
    const longer = `${lines.at(-1)} ${word}`.trim();
    if (longer.length > letters && lines.at(-1)) lines.push(word);
    else lines[lines.length - 1] = longer;
  }
  return lines;
}

function fitted(given, width, data) {
  const spec = structuredClone(given);
  limitLabels(spec, Math.max(width * 0.32, 90));
  if (width < 560) narrow(spec, width / 9);
  if (spec.vconcat) {
    const reserved = spec.usermeta?.reserve ?? 0;
    spec.vconcat.forEach((part) => { part.width = Math.max(width - reserved, 120); });
  } else if (typeof spec.width === 'number') {
    spec.width = width;
    spec.autosize = { type: 'fit-x', contains: 'padding' };
  }
  spec.datasets = {};
  let marks = 0;
  for (const name of namesOfData(spec)) {
    const rows = data?.[name] ?? rowsOf(name);
    spec.datasets[name] = rows.map((row) => ({ ...row }));
    if (name !== 'cells') marks += rows.length; // those are put together first
  }
  return { spec, renderer: marks > MOST_IN_SVG ? 'canvas' : 'svg' };
}

// `data` replaces datasets of the page by name; `spec` the chart's own.
async function draw(target, { spec, data } = {}) {
  const known = charts.get(target);
  const drawn = {
    spec: spec ?? known?.spec ?? page.charts[target.dataset.chart],
    data: data ?? known?.data,
    width: Math.floor(target.clientWidth),
    theme: theme(),
  };
  if (drawn.width < 1) return; // hidden: it is drawn when it is shown
  charts.set(target, drawn);
  const made = fitted(drawn.spec, drawn.width, drawn.data);
  try {
    known?.view?.finalize();
    const { view } = await vegaEmbed(target, made.spec, {
      mode: 'vega-lite',
      renderer: made.renderer,
      config: configuration(),
      tooltip: { theme: drawn.theme },
      actions: { export: true, source: false, compiled: false, editor: false },
      downloadFileName: `${document.title} ${target.dataset.chart}`.replace(/[^\w.-]+/g, '-'),
    });
    drawn.view = view;
    target.dataset.state = 'drawn';
  } catch (error) {
    target.dataset.state = 'failed';
    target.textContent = `This chart could not be drawn: ${error.message}`;
    console.error(target.dataset.chart, error);
  }
}

// One after the other, so that the page can be used meanwhile.
let queue = Promise.resolve();
function drawSoon(target, given) {
  queue = queue.then(() => new Promise((resolve) => setTimeout(resolve)))
    .then(() => draw(target, given));
  return queue;
}

function redrawAll() {
  for (const [target, drawn] of charts) {
    if (target.clientWidth < 1) { charts.delete(target); delete target.dataset.state; continue; }
    if (drawn.theme !== theme() || drawn.width !== Math.floor(target.clientWidth)) drawSoon(target);
  }
}

function startCharts() {
  document.querySelectorAll('.chart[data-chart]').forEach((target) => drawSoon(target));
  let timer = 0;
  addEventListener('resize', () => { clearTimeout(timer); timer = setTimeout(redrawAll, 150); });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redrawAll);
  return queue;
}

// Buttons that choose which chart of a view is shown.
function startChoices() {
  document.querySelectorAll('[data-choices]').forEach((group) => {
    group.addEventListener('click', (event) => {
      const button = event.target.closest('button');
      if (!button) return;
      group.querySelectorAll('button').forEach((one) => {
        const shown = one === button;
        one.setAttribute('aria-pressed', String(shown));
        const figure = document.getElementById(one.getAttribute('aria-controls'));
        figure.hidden = !shown;
        const target = figure.querySelector('.chart');
        if (shown && target.dataset.state !== 'drawn') drawSoon(target);
      });
      redrawAll();
    });
  });
}
