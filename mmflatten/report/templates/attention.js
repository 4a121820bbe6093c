// Attention viewer: a query in the image, and its attention weights in each layer and head of each run.
(() => {
'use strict';
const source = document.getElementById('attention-data');
if (!source) return;
const runs = JSON.parse(source.textContent);
const [picture, statusLine, imageBox, layerBox, headBox, prefixBox, layersTitle, headsTitle] =
  ['picture', 'status', 'image', 'layer', 'head', 'prefix', 'layers', 'heads'].map(name => document.getElementById(`attn-${name}`));
const state = {image: 0, layer: 0, head: 0, x: .5, y: .5, prefix: false};
const bytes = text => Uint8Array.from(atob(text), letter => letter.charCodeAt(0)).buffer;
const layersOf = run => run.images[state.image].layers;
const headName = head => head ? `head ${head - 1}` : 'mean of heads';  // the first head is the mean
const number = value => Number(value.toPrecision(2)).toString();
const cell = (place, cells) => Math.min(cells - 1, Math.max(0, Math.floor(place * cells)));
const pixelAt = (size, x, y) => `${cell(x, size[1])}, ${cell(y, size[0])}`;

// The query's weights in a head as codes, their scale and sum, and the query's place in the image; null without weights.
function rowOf(layer, head) {
  if (!layer || head >= layer.heads || (state.prefix && !layer.prefix)) return null;
  layer.decoded ??= [new Int8Array(bytes(layer.codes)), new Float32Array(bytes(layer.rows))];
  const [H, W] = layer.map, [rows, cols] = layer.grid, row = cell(state.y, rows), col = cell(state.x, cols);
  const place = (state.prefix ? 0 : layer.prefix + row * cols + col) * layer.heads + head;
  const keys = layer.prefix + layer.stored[0] * layer.stored[1];
  const codes = layer.decoded[0].subarray(place * keys, (place + 1) * keys);
  const [scale, sum] = layer.decoded[1].subarray(2 * place);
  return {map: codes.subarray(layer.prefix), token: codes[0] * scale / 127, scale: scale / 127, sum,
          x: (cell((col + .5) / cols, W) + .5) / W, y: (cell((row + .5) / rows, H) + .5) / H};
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
  const [map, caption] = figure.children, row = rowOf(layer, head), text = `${title}: ${describe(image.size, layer, head, row)}`;
  map.firstChild.width = 0;  // empty
  if (row) paint(map.firstChild, layer, row.map);
  mark(figure, row?.x, row?.y);
  caption.textContent = row ? title : text;
  map.ariaLabel = text;
  return `${text}.`;
}

function drawRun(run, i) {
  const image = run.images[state.image], layer = image.layers[state.layer];
  const [large, layers, heads] = ['large', 'layers', 'heads'].map(maps => document.querySelector(`[data-run="${i}"][data-maps="${maps}"]`));
  for (const box of $$(`#attention [data-run="${i}"]`)) {
    box.style.setProperty('--picture', `url(${image.picture})`);
    box.style.setProperty('--ratio', `${image.size[1]} / ${image.size[0]}`);
  }
  const card = (of, head, title, change) => {
    const figure = large.firstChild.cloneNode(true);
    show(figure, image, of, head, title);
    figure.classList.toggle('chosen', of === layer && head === state.head);
    figure.onclick = () => choose(change);
    return figure;
  };
  const text = show(large.firstChild, image, layer, state.head,
                    `${runs.length > 1 ? `${run.name}, layer` : 'Layer'} ${state.layer}, ${headName(state.head)}`);
  const blocks = layer && `${layer.stored}` !== `${layer.keys}` ? `, drawn as means over ${layer.stored.join(' × ')} blocks` : '';
  if (layer) large.querySelector('figcaption').append(`: ${layer.kind}, ${layer.keys.join(' × ')} keys${blocks}`);
  layers.replaceChildren(...image.layers.map((of, place) => card(of, state.head, `${place} ${of.name}`, {layer: place})));
  heads.replaceChildren(...Array.from({length: layer?.heads ?? 0}, (_, head) => card(layer, head, headName(head), {head})));
  return text;
}

// Change the state and draw everything.
function choose(change) {
  Object.assign(state, change);
  const layers = runs.map(layersOf).reduce((most, each) => each.length > most.length ? each : most);
  state.layer = Math.min(state.layer, layers.length - 1);
  const heads = Math.max(...runs.map(run => layersOf(run)[state.layer]?.heads ?? 0));
  state.head = Math.min(state.head, heads - 1);
  layerBox.replaceChildren(...layers.map((layer, i) => new Option(`${i} ${layer.name}`, i, false, i === state.layer)));
  headBox.replaceChildren(...Array.from({length: heads}, (_, head) => new Option(headName(head), head, false, head === state.head)));
  layersTitle.textContent = `Every layer, ${headName(state.head)}`;
  headsTitle.textContent = `Every head of layer ${state.layer}`;
  mark(picture, state.x, state.y);
  const {size} = runs[0].images[state.image], texts = runs.map(drawRun);
  const place = state.prefix ? 'the class token' : `${pixelAt(size, state.x, state.y)} of ${size[1]} × ${size[0]} pixels`;
  statusLine.textContent = `Query: ${place}. ${texts.join(' ')}`;
}

// Centre of the next cell along an axis, in the finest grid of the chosen layer.
function moved(place, by, axis) {
  const cells = Math.max(...runs.map(run => layersOf(run)[state.layer]?.grid[axis] ?? 1));
  return (cell(place + by / cells, cells) + .5) / cells;
}

const MOVES = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]};
picture.addEventListener('keydown', event => {
  const move = MOVES[event.key];
  if (!move) return;
  event.preventDefault();
  choose({x: moved(state.x, move[0], 1), y: moved(state.y, move[1], 0)});
});
const pointed = event => {
  const box = picture.getBoundingClientRect(), inside = value => Math.min(1, Math.max(0, value));
  choose({x: inside((event.clientX - box.left) / box.width), y: inside((event.clientY - box.top) / box.height)});
};
picture.addEventListener('click', pointed);
picture.addEventListener('pointermove', event => { if (event.pointerType === 'mouse' && event.buttons & 1) pointed(event); });
for (const [box, name] of [[imageBox, 'image'], [layerBox, 'layer'], [headBox, 'head']]) {
  box.addEventListener('change', () => choose({[name]: Number(box.value)}));
}
prefixBox.addEventListener('change', () => choose({prefix: prefixBox.value !== ''}));
prefixBox.parentElement.hidden = !runs.some(run => run.images.some(image => image.layers.some(layer => layer.prefix)));
choose({});
})();
