// The heat map of two decisions that are chosen in select boxes.
function heatMapOf(x, y) {
  const { sites, axes, path } = page.decisions;
  const labelsOf = (axis) => {
    const { at } = sites[axis.site];
    return (row) => (at[row] < 0 ? null : axis.labels[axis.map[at[row]]]);
  };
  const [across, up] = [labelsOf(x), labelsOf(y)];
  const trials = rowsOf('trials');
  const place = (row) => ({ x: across(row), y: up(row), latency: trials[row].latency });
  const taken = (one) => one.x !== null && one.y !== null && one.latency !== null;
  const cells = trials.map((_, row) => place(row)).filter(taken);
  const steps = path.map((row, step) => ({ ...place(row), step: step + 1, trial: trials[row].trial }))
    .filter(taken);
  const spec = structuredClone(page.charts.decisions);
  const most = Math.max(x.labels.length, y.labels.length, 1);
  const step = Math.max(28, Math.min(54, Math.floor(560 / most)));
  const labelAngle = Math.max(...x.labels.map((label) => label.length)) * 7 <= step ? 0 : -45;
  spec.layer.forEach(({ encoding }) => {
    Object.assign(encoding.x, {
      title: x.name,
      scale: { ...encoding.x.scale, domain: x.labels },
      axis: { ...encoding.x.axis, labelAngle },
    });
    const domain = [...y.labels].reverse();
    Object.assign(encoding.y, { title: y.name, scale: { ...encoding.y.scale, domain } });
  });
  Object.assign(spec, { width: { step }, height: { step } });
  return { spec, data: { cells, path: steps } };
}

function startHeatMap() {
  const selects = ['axis-x', 'axis-y'].map((id) => document.getElementById(id));
  if (selects.includes(null)) return;
  const target = document.querySelector('.chart[data-chart="decisions"]');
  const summary = document.getElementById('decisions-summary');
  const byName = new Map(page.decisions.axes.map((axis) => [axis.name, axis]));
  const show = () => {
    const [x, y] = selects.map((select) => byName.get(select.value));
    const made = heatMapOf(x, y);
    const measured = new Set(made.data.cells.map((one) => `${one.x}\n${one.y}`)).size;
    const all = x.labels.length * y.labels.length;
    summary.textContent = `${plainNumber.format(measured)} of ${plainNumber.format(all)} ` +
      `combinations were measured. The search's path has ${made.data.path.length} steps.`;
    target.closest('figure').setAttribute('aria-label', `Heat map of ${x.name} and ${y.name}. ${summary.textContent}`);
    return made;
  };
  selects.forEach((select) => select.addEventListener('change', () => drawSoon(target, show())));
  document.getElementById('axis-swap').addEventListener('click', () => {
    [selects[0].value, selects[1].value] = [selects[1].value, selects[0].value];
    drawSoon(target, show());
  });
  show();
}
