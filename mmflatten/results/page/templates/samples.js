// Samples: toggles show layers, filters choose images.
const gallery = document.getElementById('gallery');
if (gallery) {
  const toggles = $$('.toggle', gallery), samples = $$('.sample', gallery);
  const isPressed = toggle => toggle.getAttribute('aria-pressed') === 'true';
  const showLayers = () => toggles.forEach(toggle => $$(`.sample [data-layer="${toggle.dataset.layer}"]`, gallery)
    .forEach(layer => layer.toggleAttribute('hidden', !isPressed(toggle))));
  toggles.forEach(toggle => toggle.addEventListener('click', () => {
    const pressed = !isPressed(toggle);
    if (pressed && gallery.dataset.exclusive === 'true') toggles.forEach(other => other.setAttribute('aria-pressed', false));
    toggle.setAttribute('aria-pressed', pressed);
    showLayers();
  }));
  const [group, kind] = ['sample-group', 'sample-class'].map(id => document.getElementById(id));
  const filter = () => {
    samples.forEach(({dataset}, i) => {
      samples[i].hidden = (group.value && dataset.group !== group.value)
        || (kind?.value && !JSON.parse(dataset.classes).includes(kind.value));
    });
    const shown = samples.filter(sample => !sample.hidden).length;
    document.getElementById('sample-count').value = `${shown} of ${samples.length} images`;
  };
  [group, kind].forEach(select => select?.addEventListener('change', filter));
  showLayers();
  filter();
}
