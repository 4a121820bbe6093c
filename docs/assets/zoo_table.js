// Sorting and filters of the model zoo's table (tools/maintain/zoo_table.py). Without this file the table is plain.
for (const zoo of document.querySelectorAll('.zoo')) {
  const form = zoo.querySelector('form')
  const status = zoo.querySelector('[role=status]')
  const body = zoo.querySelector('tbody')
  const heads = [...zoo.querySelectorAll('th')]
  const titles = heads.map(head => head.textContent)
  const rows = [...body.rows]
  const texts = new Map(rows.map(row => [row, [...row.cells].map(cell => cell.textContent)]))

  function fits(row) {
    return [...new FormData(form)].every(([title, wanted]) => {
      const text = texts.get(row)[titles.indexOf(title)]
      if (title === 'model') return text.toLowerCase().includes(wanted.trim().toLowerCase())
      return !wanted || text.split(', ').includes(wanted)
    })
  }

  function filter() {
    for (const row of rows) row.hidden = !fits(row)
    status.textContent = `${rows.filter(row => !row.hidden).length} of ${rows.length} rows`
  }

  function sort(column) {
    const head = heads[column]
    const down = head.getAttribute('aria-sort') === 'ascending'
    const number = head.classList.contains('number')
    for (const other of heads) other.setAttribute('aria-sort', 'none')
    head.setAttribute('aria-sort', down ? 'descending' : 'ascending')
    const value = row => {
      const text = texts.get(row)[column]
      return number ? parseFloat(text) : text
    }
    const empty = row => (number ? Number.isNaN(value(row)) : value(row) === '')
    const order = (a, b) => (number ? a - b : a.localeCompare(b, 'en', {numeric: true})) * (down ? -1 : 1)
    // Rows without a value stay at the end in both directions.
    rows.sort((a, b) => empty(a) - empty(b) || (empty(a) ? 0 : order(value(a), value(b))))
    body.append(...rows)
  }

  heads.forEach((head, column) => head.firstElementChild.addEventListener('click', () => sort(column)))
  form.addEventListener('input', filter)
  form.addEventListener('reset', () => setTimeout(filter))
  form.addEventListener('submit', event => event.preventDefault())
  form.hidden = false
  filter()
}
