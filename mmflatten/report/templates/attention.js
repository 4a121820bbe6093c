// Attention viewer: a query in the image, and its attention weights in each layer and head of each run.
(() => {
'use strict';
const source = document.getElementById('attention-data');
if (!source) return;
const runs = JSON.parse(source.textContent);
const MEAN = 0;  // index of the mean over the heads; head n has the index n + 1
const LARGE = 480, SMALL = 240;  // pixels of the longer side
const byId = id => document.getElementById(id);
const picture = byId('attn-picture'), statusLine = byId('attn-status'), layerBox = byId('attn-layer'), headBox = byId('attn-head');
const imageBox = byId('attn-image'), prefixBox = byId('attn-prefix');
const state = {image: 0, layer: 0, head: MEAN, x: .5, y: .5, prefix: false};
const unpacked = new Map(), pictures = new Map();

const imageOf = run => run.images[state.image];
const shortName = layer => layer.name.replace(/^backbone\.|\.(attn\.)?fn$/g, '');
const number = value => Number(value.toPrecision(2)).toString();
const headName = head => head === MEAN ? 'mean of heads' : `head ${head - 1}`;

function bytes(text) {
  return Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
}

function arrays(layer) {
  if (!unpacked.has(layer)) {
    unpacked.set(layer, {weights: bytes(layer.weights), scales: new Float32Array(bytes(layer.scales).buffer),
                         sums: new Float32Array(bytes(layer.sums).buffer)});
  }
  return unpacked.get(layer);
}

// Index of the chosen query in a layer, and its position in the image (0 to 1).
function chosenQuery(layer) {
  if (state.prefix) return {query: 0, x: null, y: null};
  const [H, W] = layer.map, [rows, cols] = layer.grid;
  const row = Math.min(rows - 1, Math.floor(state.y * rows)), col = Math.min(cols - 1, Math.floor(state.x * cols));
  return {query: layer.prefix + row * cols + col, y: (Math.floor((row + .5) * H / rows) + .5) / H,
          x: (Math.floor((col + .5) * W / cols) + .5) / W};
}

// Weights of the query on the key map; null if the layer has no such head or no class token.
function weightsOf(layer, head) {
  if (!layer || head > layer.heads || (state.prefix && !layer.prefix)) return null;
  const {weights, scales, sums} = arrays(layer), {query, x, y} = chosenQuery(layer);
  const keys = layer.prefix + layer.stored[0] * layer.stored[1], place = query * (1 + layer.heads) + head;
  const codes = weights.subarray(place * keys, (place + 1) * keys), scale = scales[place];
  const values = Float32Array.from(codes, layer.signed ? code => (code - 128) / 127 * scale : code => code / 255 * scale);
  return {values, map: values.subarray(layer.prefix), scale, sum: sums[place], x, y};
}

function sized(canvas, image, longest) {
  const [height, width] = image.size, ratio = longest / Math.max(height, width);
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  return canvas.getContext('2d');
}

// An image in colour and in dark grey, the background of the maps; cached.
function loaded(image) {
  if (!pictures.has(image)) {
    pictures.set(image, new Promise(done => {
      const element = new Image();
      element.onload = () => done({colour: element, grey: greyOf(element, image)});
      element.src = image.picture;
    }));
  }
  return pictures.get(image);
}

function greyOf(element, image) {
  const canvas = document.createElement('canvas'), context = sized(canvas, image, LARGE);
  context.drawImage(element, 0, 0, canvas.width, canvas.height);
  const pixels = context.getImageData(0, 0, canvas.width, canvas.height), data = pixels.data;
  for (let i = 0; i < data.length; i += 4) data[i] = data[i + 1] = data[i + 2] = (data[i] + data[i + 1] + data[i + 2]) / 5;
  context.putImageData(pixels, 0, 0);
  return canvas;
}

// Transparent for small weights, red to yellow for large ones; blue for negative weights in layers that have them.
function overlay(layer, map) {
  const canvas = document.createElement('canvas');
  [canvas.height, canvas.width] = layer.stored;
  const context = canvas.getContext('2d'), pixels = context.createImageData(canvas.width, canvas.height);
  const sizes = map.map(Math.abs).sort(), top = sizes[Math.ceil(.99 * (sizes.length - 1))] || sizes[sizes.length - 1] || 1;
  map.forEach((value, i) => {
    const share = Math.min(1, Math.abs(value) / top);
    const colour = !layer.signed ? [255, 255 * share, 0] : value < 0 ? [30, 90, 255] : [255, 30, 30];
    pixels.data.set([...colour, 255 * .85 * share], 4 * i);
  });
  context.putImageData(pixels, 0, 0);
  return canvas;
}

function cross(context, x, y) {
  const {width, height} = context.canvas, arm = Math.max(width, height) / 24;
  for (const [colour, thick] of [['#000', 5], ['#0ff', 2.5]]) {
    context.strokeStyle = colour;
    context.lineWidth = thick * Math.max(width, height) / LARGE * (arm > 12 ? 1 : 1.6);
    context.beginPath();
    context.moveTo(x * width - arm, y * height);
    context.lineTo(x * width + arm, y * height);
    context.moveTo(x * width, y * height - arm);
    context.lineTo(x * width, y * height + arm);
    context.stroke();
  }
}

async function drawMap(canvas, image, layer, found, longest) {
  const {grey} = await loaded(image), context = sized(canvas, image, longest);
  context.drawImage(grey, 0, 0, canvas.width, canvas.height);
  if (!found) return;
  context.imageSmoothingEnabled = false;
  context.drawImage(overlay(layer, found.map), 0, 0, canvas.width, canvas.height);
  if (found.x !== null) cross(context, found.x, found.y);
}

async function drawPicture() {
  const image = imageOf(runs[0]), {colour} = await loaded(image), context = sized(picture, image, LARGE);
  context.drawImage(colour, 0, 0, picture.width, picture.height);
  if (!state.prefix) cross(context, state.x, state.y);
}

function largest(layer, found) {
  let best = 0;
  found.map.forEach((value, i) => { if (Math.abs(value) > Math.abs(found.map[best])) best = i; });
  return {value: found.map[best], x: (best % layer.stored[1] + .5) / layer.stored[1],
          y: (Math.floor(best / layer.stored[1]) + .5) / layer.stored[0]};
}

const pixels = (image, x, y) => `${Math.floor(x * image.size[1])}, ${Math.floor(y * image.size[0])}`;

// Largest weight and sum of a map, or the reason why it has no weights.
function describe(image, layer, head, found) {
  if (!layer) return 'no such layer';
  if (!found) return head > layer.heads ? `no head ${head - 1}` : 'no class token';
  const most = largest(layer, found), token = layer.prefix ? `, class token ${number(found.values[0])}` : '';
  return `largest weight ${number(most.value)} at ${pixels(image, most.x, most.y)}${token}; row sum ${found.sum.toFixed(3)}`;
}

function drawLarge() {
  const parts = runs.map((run, i) => {
    const canvas = document.querySelector(`#attention [data-run="${i}"]`), image = imageOf(run);
    const layer = image.layers[state.layer], found = weightsOf(layer, state.head);
    drawMap(canvas, image, layer, found, LARGE);
    const title = `${runs.length > 1 ? `${run.name}, layer` : 'Layer'} ${state.layer}, ${headName(state.head)}`;
    const words = describe(image, layer, state.head, found);
    canvas.setAttribute('aria-label', `${title}: ${words}`);
    canvas.nextElementSibling.textContent = title + (layer ? `: ${layer.kind}, ${sizesOf(layer)}` : '');
    return `${title}: ${words}.`;
  });
  const image = imageOf(runs[0]);
  const place = state.prefix ? 'the class token' : `${pixels(image, state.x, state.y)} of ${image.size[1]} × ${image.size[0]} pixels`;
  statusLine.textContent = `Query: ${place}. ${parts.join(' ')}`;
}

function sizesOf(layer) {
  const [H, W] = layer.keys, [h, w] = layer.stored;
  return `${H} × ${W} keys` + (H * W === h * w ? '' : `, drawn as means over ${h} × ${w} blocks`);
}

function card(box, i) {
  while (box.children.length <= i) {
    const figure = document.createElement('figure'), canvas = document.createElement('canvas');
    canvas.setAttribute('role', 'img');
    figure.append(canvas, document.createElement('figcaption'));
    box.append(figure);
  }
  return box.children[i];
}

// A small map for each of `entries`: {layer, head, title, chosen, choose}.
function drawCards(box, image, entries) {
  entries.forEach(({layer, head, title, chosen, choose}, i) => {
    const figure = card(box, i), [canvas, caption] = figure.children, found = weightsOf(layer, head);
    drawMap(canvas, image, layer, found, SMALL);
    caption.textContent = title + (found ? '' : `: ${describe(image, layer, head, found)}`);
    canvas.setAttribute('aria-label', `${title}: ${describe(image, layer, head, found)}`);
    figure.classList.toggle('chosen', chosen);
    figure.onclick = choose;
  });
  while (box.children.length > entries.length) box.lastChild.remove();
}

function draw() {
  drawPicture();
  drawLarge();
  byId('attn-layers-title').textContent = `Every layer, ${headName(state.head)}`;
  byId('attn-heads-title').textContent = `Every head of layer ${state.layer}`;
  runs.forEach((run, i) => {
    const image = imageOf(run), layer = image.layers[state.layer];
    drawCards(document.querySelector(`#attention [data-layers="${i}"]`), image, image.layers.map((each, number) => ({
      layer: each, head: state.head, title: `${number} ${shortName(each)}`, chosen: number === state.layer,
      choose: () => choose({layer: number})})));
    drawCards(document.querySelector(`#attention [data-heads="${i}"]`), image,
              Array.from({length: layer ? layer.heads + 1 : 0}, (_, head) => ({
                layer, head, title: headName(head), chosen: head === state.head, choose: () => { headBox.value = head; choose({head}); }})));
  });
}

function fill(box, names, chosen) {
  box.replaceChildren(...names.map((name, i) => new Option(name, i, false, i === chosen)));
}

// Change the state and redraw.
function choose(change) {
  Object.assign(state, change);
  if ('image' in change || 'layer' in change) fillControls();
  draw();
}

function fillControls() {
  const layers = runs.map(run => imageOf(run).layers).reduce((most, each) => each.length > most.length ? each : most);
  state.layer = Math.min(state.layer, layers.length - 1);
  const heads = Math.max(...runs.map(run => imageOf(run).layers[state.layer]?.heads ?? 0));
  state.head = Math.min(state.head, heads);
  fill(layerBox, layers.map((layer, i) => `${i} ${shortName(layer)}`), state.layer);
  fill(headBox, Array.from({length: heads + 1}, (_, head) => headName(head)), state.head);
}

// Centre of the next cell along an axis, in the finest grid of the chosen layer.
function moved(place, by, axis) {
  const cells = Math.max(...runs.map(run => imageOf(run).layers[state.layer]?.grid[axis] ?? 1));
  return (Math.min(cells - 1, Math.max(0, Math.floor(place * cells) + by)) + .5) / cells;
}

const inside = value => Math.min(1 - 1e-6, Math.max(0, value));

function pointed(event) {
  const box = picture.getBoundingClientRect();
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
imageBox.addEventListener('change', () => choose({image: Number(imageBox.value)}));
layerBox.addEventListener('change', () => choose({layer: Number(layerBox.value)}));
headBox.addEventListener('change', () => choose({head: Number(headBox.value)}));
prefixBox.addEventListener('change', () => choose({prefix: prefixBox.value !== ''}));
byId('attn-query').hidden = !runs.some(run => run.images.some(image => image.layers.some(layer => layer.prefix)));
choose({image: 0});
})();
