// The data of the page: one JSON document, unpacked when a part of it is first asked for.
const page = JSON.parse(document.getElementById('data').textContent);
const unpacked = new Map();

// Rows of a dataset as objects; a column is a list, or texts and the number of one for each row.
function rowsOf(name) {
  if (!unpacked.has(name)) {
    const { length, columns } = page.datasets[name];
    const fields = Object.entries(columns).map(([field, column]) => [
      field, Array.isArray(column) ? column : column.at.map((number) => column.of[number]),
    ]);
    unpacked.set(name, Array.from({ length }, (_, row) =>
      Object.fromEntries(fields.map(([field, column]) => [field, column[row]]))));
  }
  return unpacked.get(name);
}

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, '');
    else if (value !== false && value != null) made.setAttribute(name, value);
  }
  // Texts become text nodes: nothing in them is read as HTML.
  made.append(...children.filter((child) => child != null));
  return made;
}

const shortNumber = new Intl.NumberFormat('en', { maximumSignificantDigits: 4 });
const plainNumber = new Intl.NumberFormat('en');
