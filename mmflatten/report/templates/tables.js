// Tables: a click on a column's name sorts; long tables have a filter.
const asNumber = text => parseFloat(text.replaceAll(',', ''));
function sortBy(table, column) {
  const heads = $$('thead th', table), head = heads[column];
  const sign = head.getAttribute('aria-sort') === 'ascending' ? -1 : 1;
  heads.forEach(other => other.removeAttribute('aria-sort'));
  head.setAttribute('aria-sort', sign > 0 ? 'ascending' : 'descending');
  const text = row => row.cells[column].textContent;
  const compare = (a, b) => isNaN(asNumber(a)) || isNaN(asNumber(b))
    ? a.localeCompare(b, 'en', {numeric: true}) : asNumber(a) - asNumber(b);
  table.tBodies[0].append(...$$('tbody tr', table).sort((a, b) => sign * compare(text(a), text(b))));
}
$$('table[data-sortable]').forEach((table, number) => {
  $$('thead th', table).forEach((head, column) => {
    const button = Object.assign(document.createElement('button'), {type: 'button', textContent: head.textContent});
    button.addEventListener('click', () => sortBy(table, column));
    head.replaceChildren(button);
  });
  const rows = $$('tbody tr', table);
  if (rows.length < 12) return;
  const controls = document.createElement('div');
  controls.className = 'controls';
  controls.innerHTML = '<label>Rows that contain<input type="search"></label>';
  const input = controls.querySelector('input');
  input.addEventListener('input', () => rows.forEach(row => {
    row.hidden = !row.textContent.toLowerCase().includes(input.value.toLowerCase());
  }));
  table.parentElement.before(controls);
});
