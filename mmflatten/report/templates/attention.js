// The attention viewer: a query on the picture, and where each layer and head of each run attends for it.
(() => {
'use strict';
const source = document.getElementById('attention-data');
if (!source) return;
const runs = JSON.parse(source.textContent);
const MEAN = 0;  // heads are stored behind their mean
const LARGE = 480, SMALL = 240;  // pixels of the longer side
const byId = id => document.getElementById(id);
const picture = byId('attn-picture'), said = byId('attn-said'), layerBox = byId('attn-layer'), headBox = byId('attn-head');
const imageBox = byId('attn-image'), prefixBox = byId('attn-prefix');
const state = {image: 0, layer: 0, head: MEAN, x: .5, y: .5, prefix: false};
const unpacked = new Map(), greys = new Map();

const imageOf = run => run.images[state.image];
const shortName = layer => layer.name.replace(/^backbone\./, '');
const number = value => Number(value.toPrecision(2)).toString();
const headName = head => head === MEAN ? 'mean' : `head ${head - 1}`;

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

// The number of the stored query that is asked in a layer, and where it stands on the picture (0 to 1).
function asked(layer) {
  if (state.prefix) return {query: 0, x: null, y: null};
  const [H, W] = layer.map, [rows, cols] = layer.grid;
  const row = Math.min(rows - 1, Math.floor(state.y * rows)), col = Math.min(cols - 1, Math.floor(state.x * cols));
  return {query: layer.prefix + row * cols + col, y: (Math.floor((row + .5) * H / rows) + .5) / H,
          x: (Math.floor((col + .5) * W / cols) + .5) / W};
}

// The weights of a query on the map of the keys; null where the layer has no such head or no class token.
function weightsOf(layer, head) {
  if (!layer || head > layer.heads || (state.prefix && !layer.prefix)) return null;
  const {weights, scales, sums} = arrays(layer), {query, x, y} = asked(layer);
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

// The picture of an image as a bitmap; grey ones are made once.
function loaded(image) {
  if (!greys.has(image)) {
    greys.set(image, new Promise(done => {
      const element = new Image();
      element.onload = () => done({colour: element, grey: greyOf(element, image)});
      element.src = image.picture;
    }));
  }
  return greys.get(image);
}

function greyOf(element, image) {
  const canvas = document.createElement('canvas'), context = sized(canvas, image, LARGE);
  context.drawImage(element, 0, 0, canvas.width, canvas.height);
  const pixels = context.getImageData(0, 0, canvas.width, canvas.height), data = pixels.data;
  for (let i = 0; i < data.length; i += 4) data[i] = data[i + 1] = data[i + 2] = (data[i] + data[i + 1] + data[i + 2]) / 3;
  context.putImageData(pixels, 0, 0);
  return canvas;
}

// Transparent where small, from red to yellow where large; blue where negative if the layer has such weights.
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
