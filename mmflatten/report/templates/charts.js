// Charts: numbers stand in the page as JSON, colours and fonts come from the theme.
const SERIES = ['#2f74d0', '#e0702a', '#2d9c6b', '#b0509b', '#8467c9', '#b8922a', '#3aa0b3', '#c94f5a'];
const AREAS = ['#8fb2e3', '#efb08a', '#8fcaae', '#d3a3c9', '#b6a9e0', '#d9c48a', '#93cdd8', '#e3a1a8'];
const DASHES = ['solid', 'dash', 'dot', 'dashdot'];
const CONFIG = {displaylogo: false, responsive: true, showLink: false, showSendToCloud: false, plotlyServerURL: '',
  topojsonURL: '', modeBarButtonsToRemove: ['select2d', 'lasso2d', 'autoScale2d'], displayModeBar: 'hover'};

function themedTrace(trace, width) {
  const made = structuredClone(trace);
  if (trace.type === 'heatmap') {
    made.colorscale = [[0, colour('--surface')], [1, colour('--heat')]];
    made.textfont = {size: 10};
    if (width < 420) delete made.texttemplate; // numbers would run into each other
  } else if (trace.type === 'treemap') {
    made.marker = {line: {color: colour('--surface'), width: 1}};
    made.pathbar = {textfont: {color: colour('--text')}};
    made.tiling = {pad: 2};
    made.textfont = {color: '#16191d'};
  } else if (trace.meta !== undefined) { // the number of a run, or the name of a colour
    const run = typeof trace.meta === 'number';
    const own = run ? SERIES[trace.meta % SERIES.length] : colour('--' + trace.meta);
    made.line = {width: 2, dash: DASHES[run ? trace.meta % DASHES.length : 0], ...trace.line, color: own};
    made.marker = {color: own, size: 5};
  }
  return made;
}

function themedLayout(layout) {
  const axis = {gridcolor: colour('--line'), zeroline: false, linecolor: colour('--line'), automargin: true,
    title: {standoff: 8, font: {color: colour('--muted'), size: 12}}};
  const made = {paper_bgcolor: 'transparent', plot_bgcolor: 'transparent', colorway: SERIES, treemapcolorway: AREAS,
    font: {family: getComputedStyle(document.body).fontFamily, size: 12, color: colour('--text')},
    margin: {l: 8, r: 12, t: 8, b: 8}, hoverlabel: {font: {family: getComputedStyle(document.body).fontFamily}},
    legend: {orientation: 'h', y: -0.25, yanchor: 'top'}, ...layout};
  for (const name of ['xaxis', 'yaxis']) {
    const own = layout[name] || {};
    made[name] = {...axis, ...own, title: {...axis.title, ...own.title}};
  }
  return made;
}

function drawChart(script) {
  const place = document.getElementById(script.dataset.chart);
  if (!place.offsetWidth) return; // in closed details, drawn when they open
  const {data, layout} = JSON.parse(script.textContent);
  Plotly.react(place, data.map(trace => themedTrace(trace, place.offsetWidth)), themedLayout(layout), CONFIG);
}
const drawCharts = (root = document) => $$('script[data-chart]', root).forEach(drawChart);
$$('details').forEach(details => details.addEventListener('toggle', () => drawCharts(details)));
document.addEventListener('themechange', () => drawCharts());
drawCharts();
