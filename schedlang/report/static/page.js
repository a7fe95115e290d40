// Theme, navigation and paper.
function startTheme() {
  const root = document.documentElement;
  const buttons = document.querySelectorAll('[data-set-theme]');
  const apply = (name) => {
    root.dataset.theme = name;
    buttons.forEach((one) => one.setAttribute('aria-pressed', String(one.dataset.setTheme === name)));
    root.dataset.shown = theme();
  };
  const remembered = () => { try { return localStorage.getItem('schedlang-theme'); } catch { return null; } };
  buttons.forEach((button) => button.addEventListener('click', () => {
    const name = button.dataset.setTheme;
    try { localStorage.setItem('schedlang-theme', name); } catch { /* it is not remembered */ }
    apply(name);
    redrawAll();
  }));
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => apply(root.dataset.theme));
  apply(new URLSearchParams(location.search).get('theme') ?? remembered() ?? 'auto');
}

function startNavigation() {
  const links = new Map([...document.querySelectorAll('nav.sections a')].map((link) => [link.hash.slice(1), link]));
  const seen = new Map();
  const observer = new IntersectionObserver((entries) => {
    entries.forEach((entry) => seen.set(entry.target.id, entry.isIntersecting));
    const current = [...links.keys()].find((id) => seen.get(id));
    links.forEach((link, id) => {
      if (id === current) link.setAttribute('aria-current', 'true');
      else link.removeAttribute('aria-current');
    });
  }, { rootMargin: '-15% 0px -55% 0px' });
  document.querySelectorAll('main section[id]').forEach((section) => observer.observe(section));
}

// On paper, what is folded is shown.
function startPrint() {
  let opened = [];
  addEventListener('beforeprint', () => {
    opened = [...document.querySelectorAll('details.on-paper:not([open])')];
    opened.forEach((one) => { one.open = true; });
  });
  addEventListener('afterprint', () => opened.forEach((one) => { one.open = false; }));
}

startTheme();
startNavigation();
startPrint();
startDiffs();
startHeatMap();
startTrials();
startChoices();
startCharts().then(() => { document.documentElement.dataset.ready = 'yes'; });
