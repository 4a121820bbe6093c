// Tables: a click on a column's name sorts; long tables have a filter.
const asNumber = text => parseFloat(text.replaceAll(',', ''));
function sortBy(table, column) {
  const heads = $$('thead th', table);
  const up = heads[column].getAttribute('aria-sort') !== 'ascending';
  heads.forEach(head => head.removeAttribute('aria-sort'));
  heads[column].setAttribute('aria-sort', up ? 'ascending' : 'descending');
  const key = row => row.cells[column].textContent;
  const compare = (a, b) => isNaN(asNumber(a)) || isNaN(asNumber(b))
    ? a.localeCompare(b, 'en', {numeric: true}) : asNumber(a) - asNumber(b);
  const rows = $$('tbody tr', table).sort((a, b) => (up ? 1 : -1) * compare(key(a), key(b)));
  table.tBodies[0].append(...rows);
}
$$('table[data-sortable]').forEach((table, number) => {
  $$('thead th', table).forEach((head, column) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = head.textContent;
    button.addEventListener('click', () => sortBy(table, column));
    head.replaceChildren(button);
  });
  const rows = $$('tbody tr', table);
  if (rows.length < 12) return;
  const label = document.createElement('label');
  const input = document.createElement('input');
  Object.assign(input, {type: 'search', id: `filter-${number}`});
  label.append('Rows that contain', input);
  input.addEventListener('input', () => rows.forEach(row => {
    row.hidden = !row.textContent.toLowerCase().includes(input.value.toLowerCase());
  }));
  const controls = document.createElement('div');
  controls.className = 'controls';
  controls.append(label);
  table.parentElement.before(controls);
});
