// Attention viewer: a query in the image, and its attention weights in each layer and head of each run.
(() => {
const source = document.getElementById('attention-data');
if (!source) return;
const runs = JSON.parse(source.textContent);
const [picture, statusLine, imageBox, layerBox, headBox, prefixBox] =
  ['picture', 'status', 'image', 'layer', 'head', 'prefix'].map(name => document.getElementById(`attn-${name}`));
const state = {image: 0, layer: 0, head: 0, x: .5, y: .5, prefix: false};
const bytes = text => Uint8Array.from(atob(text), letter => letter.charCodeAt(0)).buffer;
const layersOf = run => run.images[state.image].layers;
const headName = head => head ? `head ${head - 1}` : 'mean of heads';  // the first head is the mean
const number = value => Number(value.toPrecision(2)).toString();
const cell = (place, cells) => Math.min(cells - 1, Math.floor(place * cells));

// The query's weights in a head as codes, their scale and sum, and the query's place in the image; null without weights.
function rowOf(layer, head) {
  if (!layer || head >= layer.heads || (state.prefix && !layer.prefix)) return null;
  layer.codes = typeof layer.codes === 'string' ? new Int8Array(bytes(layer.codes)) : layer.codes;
  layer.rows = typeof layer.rows === 'string' ? new Float32Array(bytes(layer.rows)) : layer.rows;
  const [rows, cols] = layer.grid, row = cell(state.y, rows), col = cell(state.x, cols);
  const place = (state.prefix ? 0 : layer.prefix + row * cols + col) * layer.heads + head;
  const keys = layer.prefix + layer.stored[0] * layer.stored[1];
  const codes = layer.codes.subarray(place * keys, (place + 1) * keys);
  const [scale, sum] = layer.rows.subarray(2 * place);
  return {map: codes.subarray(layer.prefix), token: codes[0] * scale / 127, scale: scale / 127, sum,
          x: (col + .5) / cols, y: (row + .5) / rows};
}

// Transparent for small weights, red to yellow for large ones; blue for negative weights in layers that have them.
function paint(canvas, layer, map) {
  [canvas.height, canvas.width] = layer.stored;
  const context = canvas.getContext('2d'), pixels = context.createImageData(canvas.width, canvas.height);
  const sizes = map.map(Math.abs).sort(), top = sizes[Math.ceil(.99 * (sizes.length - 1))] || sizes.at(-1) || 1;
  map.forEach((code, i) => {
    const share = Math.min(1, Math.abs(code) / top), positive = layer.signed ? [255, 30, 30] : [255, 255 * share, 0];
    pixels.data.set([...(code < 0 ? [30, 90, 255] : positive), 255 * .85 * share], 4 * i);
  });
  context.putImageData(pixels, 0, 0);
}

const pixelAt = (size, x, y) => `${Math.floor(x * size[1])}, ${Math.floor(y * size[0])}`;

// Largest weight and sum of a map, or the reason why it has no weights.
function describe(size, layer, head, row) {
  if (!layer) return 'no such layer';
  if (!row) return head >= layer.heads ? `no ${headName(head)}` : 'no class token';
  const [rows, cols] = layer.stored;
  const best = row.map.reduce((best, code, i) => Math.abs(code) > Math.abs(row.map[best]) ? i : best, 0);
  const place = pixelAt(size, (best % cols + .5) / cols, (Math.floor(best / cols) + .5) / rows);
  const token = layer.prefix ? `, class token ${number(row.token)}` : '';
  return `largest weight ${number(row.map[best] * row.scale)} at ${place}${token}; row sum ${row.sum.toFixed(3)}`;
}

function mark(figure, x, y) {
  Object.assign(figure.querySelector('i').style, {left: `${100 * x}%`, top: `${100 * y}%`, display: state.prefix ? 'none' : ''});
}

// Draw a map with its title; return the description.
function show(figure, image, layer, head, title) {
  const [map, caption] = figure.children, row = rowOf(layer, head), text = describe(image.size, layer, head, row);
  map.firstChild.width = 0;  // empty
  if (row) paint(map.firstChild, layer, row.map);
  mark(figure, row?.x, row?.y);
  caption.textContent = row ? title : `${title}: ${text}`;
  map.ariaLabel = `${title}: ${text}`;
  return `${title}: ${text}.`;
}

function drawRun(run, i) {
  const image = run.images[state.image], layer = image.layers[state.layer];
  const [large, layers, heads] = ['large', 'layers', 'heads'].map(maps => document.querySelector(`[data-run="${i}"][data-maps="${maps}"]`));
  const cards = (box, entries) => box.replaceChildren(...entries.map(({of, head, title, change}) => {
    const figure = large.firstChild.cloneNode(true);
    show(figure, image, of, head, title);
    figure.classList.toggle('chosen', of === layer && head === state.head);
    figure.onclick = () => choose(change);
    return figure;
  }));
  const text = show(large.firstChild, image, layer, state.head,
                    `${runs.length > 1 ? `${run.name}, layer` : 'Layer'} ${state.layer}, ${headName(state.head)}`);
  const blocks = layer && `${layer.stored}` !== `${layer.keys}` ? `, drawn as means over ${layer.stored.join(' × ')} blocks` : '';
  if (layer) large.querySelector('figcaption').append(`: ${layer.kind}, ${layer.keys.join(' × ')} keys${blocks}`);
  cards(layers, image.layers.map((of, place) => ({of, head: state.head, title: `${place} ${of.name}`, change: {layer: place}})));
  cards(heads, Array.from({length: layer?.heads ?? 0}, (_, head) => ({of: layer, head, title: headName(head), change: {head}})));
  return text;
}

function showImage(run, i) {
  const {picture, size} = run.images[state.image];
  for (const box of $$(`#attention [data-run="${i}"]`)) {
    box.style.setProperty('--picture', `url(${picture})`);
    box.style.setProperty('--ratio', `${size[1]} / ${size[0]}`);
  }
}

// Change the state and draw everything.
function choose(change) {
  Object.assign(state, change);
  if ('image' in change) runs.forEach(showImage);
  const layers = runs.map(layersOf).reduce((most, each) => each.length > most.length ? each : most);
  state.layer = Math.min(state.layer, layers.length - 1);
  const heads = Math.max(...runs.map(run => layersOf(run)[state.layer]?.heads ?? 0));
  state.head = Math.min(state.head, heads - 1);
  layerBox.replaceChildren(...layers.map((layer, i) => new Option(`${i} ${layer.name}`, i, false, i === state.layer)));
  headBox.replaceChildren(...Array.from({length: heads}, (_, head) => new Option(headName(head), head, false, head === state.head)));
  document.getElementById('attn-layers').textContent = `Every layer, ${headName(state.head)}`;
  document.getElementById('attn-heads').textContent = `Every head of layer ${state.layer}`;
  mark(picture, state.x, state.y);
  const {size} = runs[0].images[state.image], texts = runs.map(drawRun);
  const place = state.prefix ? 'the class token' : `${pixelAt(size, state.x, state.y)} of ${size[1]} × ${size[0]} pixels`;
  statusLine.textContent = `Query: ${place}. ${texts.join(' ')}`;
}

// Centre of the next cell along an axis, in the finest grid of the chosen layer.
function moved(place, by, axis) {
  const cells = Math.max(...runs.map(run => layersOf(run)[state.layer]?.grid[axis] ?? 1));
  return (Math.min(cells - 1, Math.max(0, Math.floor(place * cells) + by)) + .5) / cells;
}

function pointed(event) {
  const box = picture.getBoundingClientRect(), inside = value => Math.min(1 - 1e-6, Math.max(0, value));
  choose({x: inside((event.clientX - box.left) / box.width), y: inside((event.clientY - box.top) / box.height)});
}

const MOVES = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]};
picture.addEventListener('keydown', event => {
  const move = MOVES[event.key];
  if (!move) return;
  event.preventDefault();
  choose({x: moved(state.x, move[0], 1), y: moved(state.y, move[1], 0)});
});
picture.addEventListener('click', pointed);
picture.addEventListener('pointermove', event => { if (event.pointerType === 'mouse' && event.buttons & 1) pointed(event); });
for (const [box, name] of [[imageBox, 'image'], [layerBox, 'layer'], [headBox, 'head']]) {
  box.addEventListener('change', () => choose({[name]: Number(box.value)}));
}
prefixBox.addEventListener('change', () => choose({prefix: prefixBox.value !== ''}));
prefixBox.parentElement.hidden = !runs.some(run => run.images.some(image => image.layers.some(layer => layer.prefix)));
choose({image: 0});
})();
